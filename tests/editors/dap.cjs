// A session of the debugger with the client library that VS Code tests adapters with.
// Usage: node dap.cjs MODULES TILUS_LAB PROGRAM
const [modules, exe, program] = process.argv.slice(2);
const { DebugClient } = require(require.resolve("@vscode/debugadapter-testsupport", { paths: [modules] }));
const assert = require("assert");

// On a device; the result is what thread 5 holds of the sum in the third turn of the loop.
async function session(device) {
  const c = new DebugClient(exe, "", "tile");
  c.defaultTimeout = 120_000;
  // DebugClient can start an adapter without arguments only; it is given the streams of one.
  const { spawn } = require("child_process");
  const child = spawn(exe, ["dap"], { stdio: ["pipe", "pipe", "inherit"] });
  c.connect(child.stdout, child.stdin);
  const caps = await c.initializeRequest({ adapterID: "tile", linesStartAt1: true, columnsStartAt1: true, pathFormat: "path" });
  assert(caps.body.supportsStepBack && caps.body.supportsConditionalBreakpoints, "capabilities");
  const line = 7;
  const args = { a: "randint:f16[64, 64]:seed=1", c: "zeros:f32[64, 64]", n: "64" };
  await Promise.all([
    c.waitForEvent("initialized").then(async () => {
      const set = await c.setBreakpointsRequest({ source: { path: program }, breakpoints: [{ line, condition: "k == 2" }] });
      assert.deepStrictEqual(set.body.breakpoints.map((b) => [b.verified, b.line]), [[true, line]]);
      await c.configurationDoneRequest();
    }),
    c.launchRequest({ program, args, device }),
    c.assertStoppedLocation("breakpoint", { path: program, line }),
  ]);
  const frames = (await c.stackTraceRequest({ threadId: 1 })).body.stackFrames;
  const scopes = (await c.scopesRequest({ frameId: frames[0].id })).body.scopes;
  const vars = (await c.variablesRequest({ variablesReference: scopes[0].variablesReference })).body.variables;
  const named = Object.fromEntries(vars.map((v) => [v.name, v]));
  assert.strictEqual(named.k.value, "2");
  // A fragment inside the loop: what thread 5 holds, slot by slot.
  const threads = (await c.variablesRequest({ variablesReference: named.acc.variablesReference, start: 5, count: 1 })).body.variables;
  assert.strictEqual(threads[0].name, "thread 5");
  const slots = (await c.variablesRequest({ variablesReference: threads[0].variablesReference })).body.variables;
  assert(slots.length > 0 && /^slot 0 \[\d+, \d+\]$/.test(slots[0].name), JSON.stringify(slots[0]));
  assert.strictEqual((await c.evaluateRequest({ expression: "k + n", frameId: frames[0].id })).body.result, "66");
  const stopped = () => c.waitForEvent("stopped");
  await Promise.all([stopped(), c.nextRequest({ threadId: 1 })]);
  await Promise.all([c.assertStoppedLocation("step", { path: program, line }), c.stepBackRequest({ threadId: 1 })]);
  await c.setBreakpointsRequest({ source: { path: program }, breakpoints: [] });
  await Promise.all([c.waitForEvent("terminated"), c.continueRequest({ threadId: 1 })]);
  await c.disconnectRequest();
  child.kill();
  return slots.map((s) => [s.name, s.value]);
}

(async () => {
  assert.deepStrictEqual(await session("sim"), await session("interp"));
  console.log("ok");
})().catch((e) => {
  console.error(e);
  process.exit(1);
});
