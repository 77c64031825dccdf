// The explorer as `tilus-lab up` serves it: doors, token, panes, and the program of the
// Run door on a device. What a person can rely on everywhere is in ux.mjs.
//
//   node explorer.mjs ADDRESS

import { open, run, must, shot, scan, layout, pictures, drawn, redrawn } from "./lib.mjs";

const start = process.argv[2];
const base = new URL(start).origin + "/";
const { browser, context, page } = await open();
const field = () => layout(page).locator("input[type=text]").first();
const foreign = [], complaints = [];
page.on("request", (r) => { if (new URL(r.url()).host !== new URL(base).host && !r.url().startsWith("data:")) foreign.push(r.url()); });
page.on("console", (m) => { if (m.type() === "error") complaints.push(m.text()); });
page.on("pageerror", (e) => complaints.push(String(e)));

await run(browser, () => context.pages(), {
  async "the first screen has both pictures, a number and a sentence"() {
    must(start.includes("token="), "the address carries no token: " + start);
    await page.goto(start);
    await drawn(page);
    must(!page.url().includes("token"), "the address still holds the token: " + page.url());
    const [tensor, threads] = await pictures(page);
    must(tensor && threads && tensor !== threads, "there are not two pictures");
    const chain = await field().inputValue();
    must(chain.replaceAll(" ", "") === "local(2,1).spatial(8,4).local(1,2)", "the chain is " + chain);
    await redrawn(page, "Thread 5 slot 2 holds (9, 2)");
    for (const door of ["Learn", "See", "Run"]) await page.getByRole("navigation").getByRole("link", { name: door }).waitFor();
    await page.waitForFunction(() => document.querySelector("#devices").textContent.includes("interp"));
  },

  async "the token works once"() {
    const other = await browser.newContext();
    const stranger = await other.newPage();
    const answer = await stranger.goto(start);
    must(answer.status() === 403, "a second use of the token is answered with " + answer.status());
    await other.close();
  },

  async "the program of the Run door runs on a device"() {
    await page.goto(base);
    await page.getByRole("navigation").getByRole("link", { name: "Run" }).click();
    await page.locator("#run").waitFor();
    const shown = (await page.locator("textarea").evaluateAll((all) => all.map((e) => e.value))).filter((text) => text.startsWith("program "));
    must(shown.length === 1 && shown[0].includes(": register i6["), "the Run door shows " + shown);
    await redrawn(page, "matmul");
    await page.getByRole("button", { name: "Run on the device" }).click();
    await page.waitForFunction(() => /^on (interp|sim|cuda)/.test(document.querySelector("#run-out").textContent));
    await shot(page, "explorer-run", { fullPage: true });
  },

  async "devices are asked for again when the connection is lost with the answer"() {
    const other = await context.newPage();
    let lost = 0;
    await other.routeWebSocket(/\/ws$/, (ws) => {
      const server = ws.connectToServer();
      ws.onMessage((m) => {
        if (lost === 0 && JSON.parse(m).type === "devices") {
          lost++;
          ws.close();
        } else server.send(m);
      });
    });
    await other.goto(base + "?v=1#run");
    await other.waitForFunction(() => [...document.querySelectorAll("#run-device option")].some((o) => o.value === "interp"));
    must(lost === 1, "no request for devices was lost");
    await other.close();
  },

  async "the palette opens what has a name, by keys alone"() {
    await page.goto(base);
    await drawn(page);
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Find" }).waitFor();
    await page.locator("#palette-list li").nth(20).waitFor();
    await shot(page, "explorer-palette");
    await scan(page, "palette");
    await page.keyboard.type("m16n8k16 f32 f16");
    await page.waitForFunction(() => document.querySelector("#palette-list [aria-selected=true]")?.textContent.includes("mma.m16n8k16.f32.f16"));
    await page.keyboard.press("Enter");
    await redrawn(page, "mma.m16n8k16.f32.f16");
    must(page.url().includes("p=catalogue") && page.url().includes("i=mma.m16n8k16.f32.f16"), "the address is " + page.url());
    await page.keyboard.press("Control+k");
    await page.keyboard.type("axpy generated");
    await page.waitForFunction(() => document.querySelector("#palette-list [aria-selected=true]")?.textContent.includes("axpy"));
    await page.keyboard.press("Enter");
    await redrawn(page, "lines of PTX");
    const url = page.url(), was = await pictures(page);
    await page.reload();
    await redrawn(page, "lines of PTX");
    must(page.url() === url && JSON.stringify(await pictures(page)) === JSON.stringify(was), "reloading gives other pictures");
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    await page.keyboard.press("Escape");
  },

  async "panes are duplicated and closed, and back undoes it"() {
    await page.goto(base + "?v=1&p=banks");
    await redrawn(page, "32 wavefronts");
    await page.getByRole("button", { name: "Duplicate: Banks" }).click();
    await page.waitForFunction(() => document.querySelectorAll("section.pane").length === 2);
    await page.getByRole("button", { name: "Close: Banks" }).first().click();
    await page.waitForFunction(() => document.querySelectorAll("section.pane").length === 1);
    await page.goBack();
    await page.waitForFunction(() => document.querySelectorAll("section.pane").length === 2);
    await page.goBack();
    await page.waitForFunction(() => document.querySelectorAll("section.pane").length === 1);
  },

  async "the debugger goes forwards and back, and to a line"() {
    await page.goto(base + "?v=1&p=debug");
    await redrawn(page, "Step 5 of 24");
    const was = await pictures(page);
    const slider = layout(page).getByRole("slider", { name: "Step" });
    await slider.focus();
    await page.keyboard.press("ArrowLeft");
    await redrawn(page, "Step 4 of 24");
    await page.keyboard.press("ArrowRight");
    await redrawn(page, "Step 5 of 24");
    must(JSON.stringify(await pictures(page)) === JSON.stringify(was), "going back and forwards gives another picture");
    const line = await layout(page).locator(".stage").first().evaluate((e) => e.querySelector("svg").getAttribute("height"));
    await layout(page).locator(".stage").first().click({ position: { x: 120, y: line - 12 - 17 * 3 + 8 } });
    await redrawn(page, "Step 11 of 24");
    must(page.url().includes("n=11"), "the address is " + page.url());
    await shot(page, "explorer-debug");
  },

  async "nothing came from elsewhere, nothing complained"() {
    must(foreign.length === 0, "requests to " + foreign.join(", "));
    must(complaints.length === 0, complaints.join("\n"));
  },
});
