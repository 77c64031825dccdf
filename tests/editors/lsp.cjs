// A session of the language server with the client library of VS Code.
// Usage: node lsp.cjs MODULES TILUS_LAB PROGRAM
const [modules, exe, file] = process.argv.slice(2);
const lsp = require(require.resolve("vscode-languageserver-protocol/node", { paths: [modules] }));
const assert = require("assert");
const fs = require("fs");
const { spawn } = require("child_process");

(async () => {
  const child = spawn(exe, ["lsp"], { stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise((r) => child.on("exit", r));
  const c = lsp.createProtocolConnection(new lsp.StreamMessageReader(child.stdout), new lsp.StreamMessageWriter(child.stdin));
  const waiting = [];
  c.onNotification(lsp.PublishDiagnosticsNotification.type, (p) => waiting.shift()?.(p.diagnostics));
  const published = () => new Promise((r) => waiting.push(r));
  c.listen();
  const uri = "file://" + file;
  const got = await c.sendRequest(lsp.InitializeRequest.type, { processId: process.pid, rootUri: null, capabilities: {} });
  assert(got.capabilities.hoverProvider && got.capabilities.documentFormattingProvider);
  c.sendNotification(lsp.InitializedNotification.type, {});
  const text = fs.readFileSync(file, "utf8");
  const lines = text.split("\n");
  const at = (word, more = 0) => {
    const line = lines.findIndex((l) => l.includes(word));
    return { textDocument: { uri }, position: { line, character: lines[line].indexOf(word) + more } };
  };
  let d = published();
  c.sendNotification(lsp.DidOpenTextDocumentNotification.type, { textDocument: { uri, languageId: "tile", version: 1, text } });
  assert.deepStrictEqual(await d, []);
  assert.match((await c.sendRequest(lsp.HoverRequest.type, at("LoadGlobal", 3))).contents.value, /LoadGlobal/);
  const items = (await c.sendRequest(lsp.CompletionRequest.type, at("LoadGlobal", 6))).items;
  assert(items.some((i) => i.label === "LoadGlobal"));
  const from = await c.sendRequest(lsp.DefinitionRequest.type, at("acc = Add(acc", 12));
  assert.strictEqual(lines[from.range.start.line].includes("acc = AllocateRegister"), true);
  d = published();
  c.sendNotification(lsp.DidChangeTextDocumentNotification.type, { textDocument: { uri, version: 2 }, contentChanges: [{ text: text.replace("Add(acc,", "Add(ack,") }] });
  const wrong = await d;
  assert(wrong.length > 0 && wrong[0].message.includes("ack") && wrong[0].severity === lsp.DiagnosticSeverity.Error, JSON.stringify(wrong));
  d = published();
  c.sendNotification(lsp.DidChangeTextDocumentNotification.type, { textDocument: { uri, version: 3 }, contentChanges: [{ text: text.replace("Add(acc,", "Add( acc ,") }] });
  assert.deepStrictEqual(await d, []);
  const edits = await c.sendRequest(lsp.DocumentFormattingRequest.type, { textDocument: { uri }, options: { tabSize: 4, insertSpaces: false } });
  assert.strictEqual(edits[0].newText, text);
  await c.sendRequest(lsp.ShutdownRequest.type);
  c.sendNotification(lsp.ExitNotification.type);
  assert.strictEqual(await ended, 0);
  console.log("ok");
})().catch((e) => {
  console.error(e);
  process.exit(1);
});
