// A notebook that came from elsewhere: nothing in it runs before a person has seen what
// it would run, whatever its outputs try.
//
//   node trust.mjs ADDRESS NOTEBOOK-FILE MARK
//
// MARK is a file that a cell of the notebook writes.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { open, run, must, shot, scan } from "./lib.mjs";

const [start, file, mark] = process.argv.slice(2);
const base = new URL(start).origin + "/";
const { browser, context, page } = await open();
const dialog = page.getByRole("dialog", { name: "Run the code of other" });
const state = (text) => page.waitForFunction((text) => document.querySelector(".state")?.textContent === text, text);
const runAll = () => page.getByRole("button", { name: "Run all" }).click();
const still = (when) => must(!existsSync(mark), when + ": a cell ran");
const committed = readFileSync(file, "utf8");
const asked = []; // what the page asks of the server
page.on("websocket", (ws) => ws.on("framesent", (f) => asked.push(JSON.parse(f.payload).type)));

await run(browser, () => context.pages(), {
  async "it opens, and its outputs do nothing"() {
    await page.goto(start);
    await page.goto(base + "nb/other");
    await page.getByRole("note").getByText("came from elsewhere").waitFor();
    const frames = page.locator("iframe.frame");
    must(await frames.count() === 2, "there are " + await frames.count() + " frames");
    for (const f of await frames.all()) {
      must(await f.getAttribute("sandbox") === "", "a frame may do " + await f.getAttribute("sandbox"));
      await (await f.elementHandle()).contentFrame().then((inside) => inside.waitForLoadState());
    }
    await page.waitForFunction(() => [...document.querySelectorAll(".out img")].every((i) => i.complete));
    must(await page.evaluate(() => document.title !== "taken" && !window.taken), "an output reached the page");
    must(!page.url().includes("taken"), "an output led elsewhere: " + page.url());
    must(await page.locator("dialog[open]").count() === 0 && !asked.includes("nb.run"), "an output pressed a button: " + asked);
    still("opening it");
  },

  async "the server runs none of it, whoever asks"() {
    const answer = await page.evaluate(async () => {
      const ws = new WebSocket(location.origin.replace("http", "ws") + "/ws");
      await new Promise((done) => { ws.onopen = done; });
      const answer = new Promise((done) => { ws.onmessage = (e) => { const m = JSON.parse(e.data); if (m.id === 1) done(e.data); }; });
      ws.send(JSON.stringify({ v: 1, id: 1, type: "nb.run", body: { name: "other", cell: "b", source: "1 + 1" } }));
      const text = await answer;
      ws.close();
      return text;
    });
    must(answer.includes("is not trusted"), "the server answered " + answer);
  },

  async "running asks first, and no is an answer"() {
    for (const theme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: theme });
      await runAll();
      await dialog.waitFor();
      const text = await dialog.textContent();
      for (const want of ["2 cells with 6 lines", "os: reads and writes files", "os.WriteFile(", "40 + 2"]) must(text.includes(want), "it does not say " + want + ": " + text);
      must(await page.evaluate(() => document.activeElement.textContent) === "Do not run", "the focus is not on the careful answer");
      await scan(page, "the question in " + theme);
      await shot(page, "trust-" + theme);
      await page.keyboard.press(theme === "light" ? "Escape" : "Enter");
      await dialog.waitFor({ state: "detached" });
      await state("nothing ran");
    }
    await page.emulateMedia({ colorScheme: "light" });
    must(!asked.includes("nb.trust"), "it was trusted");
    still("after no");
  },

  async "once, by keys alone"() {
    await page.getByRole("button", { name: "Run all" }).focus();
    await page.keyboard.press("Enter");
    await dialog.waitFor();
    await page.keyboard.press("Tab");
    must(await page.evaluate(() => document.activeElement.textContent) === "Trust once", "Tab does not go to the next answer");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => /^all cells ran$|failed/.test(document.querySelector(".state").textContent));
    must(existsSync(mark), "the cell did not run: " + await page.locator(".out").first().textContent());
    await page.locator(".out", { hasText: "42" }).waitFor();
    must(await page.getByRole("note").count() === 0, "it still says that nothing ran");
    await page.reload();
    await page.locator(".cell.code").nth(1).waitFor();
    must(await page.getByRole("note").count() === 0, "it asks again");
    must(readFileSync(file, "utf8") === committed, "trust stands in the notebook");
  },

  async "changed elsewhere, it asks again, and always is kept"() {
    writeFileSync(file, committed.replace("40 + 2", "50 + 2"));
    await page.reload();
    await page.getByRole("note").getByText("came from elsewhere").waitFor();
    await page.getByRole("button", { name: "What would it run?" }).click();
    must((await dialog.textContent()).includes("50 + 2"), "it does not show the change");
    await dialog.getByRole("button", { name: "Trust always" }).click();
    await page.getByRole("note").waitFor({ state: "detached" });
    must(!await page.locator(".out", { hasText: "52" }).count(), "trust alone ran a cell");
    await runAll();
    await page.locator(".out", { hasText: "52" }).waitFor();
  },
});
