// Every pane in every choice of colours, and on a narrow screen.
//
//   node panes.mjs ADDRESS

import { open, run, must, shot, scan } from "./lib.mjs";

const start = process.argv[2];
const base = new URL(start).origin + "/";
const { browser, context, page } = await open();
const said = () => page.waitForFunction(() => document.querySelector("section.pane .say")?.textContent.length > 3);
let names = [];

await run(browser, () => context.pages(), {
  async "the palette names the panes"() {
    await page.goto(start);
    await said();
    await page.keyboard.press("Control+k");
    await page.keyboard.type("pane");
    await page.locator("#palette-list li small", { hasText: /^pane$/ }).first().waitFor();
    await page.keyboard.press("Escape");
    names = await page.evaluate(async () => {
      const ws = new WebSocket(location.origin.replace("http", "ws") + "/ws");
      await new Promise((done) => { ws.onopen = done; });
      const answer = new Promise((done) => { ws.onmessage = (e) => { const m = JSON.parse(e.data); if (m.id === 1) done(m.body); }; });
      ws.send(JSON.stringify({ v: 1, id: 1, type: "hello" }));
      const hello = await answer;
      ws.close();
      return hello.panes.map((p) => p.name);
    });
    must(names.length >= 14, "there are only " + names);
  },

  ...Object.fromEntries(["light", "dark", "contrast"].map((theme) => ["axe finds nothing in any pane: " + theme, async () => {
    await page.evaluate((t) => localStorage.setItem("tilus-theme", t), theme);
    for (const name of names) {
      await page.goto(base + "?v=1&p=" + name);
      await said();
      await page.waitForFunction(() => document.querySelector("#devices").textContent.includes("interp"));
      await shot(page, "pane-" + name + "-" + theme, { fullPage: true });
      await scan(page, name + " in " + theme);
    }
  }])),

  async "at 320 px no side scroll, and the first screen shows what the pane is about"() {
    await page.evaluate(() => localStorage.removeItem("tilus-theme"));
    await page.setViewportSize({ width: 320, height: 640 });
    for (const name of names) {
      await page.goto(base + "?v=1&p=" + name);
      await said();
      await page.waitForFunction(() => document.querySelector("section .canvas, section pre:not([hidden])"));
      await shot(page, "small-" + name);
      const [wide, top] = await page.evaluate(() => [document.documentElement.scrollWidth, Math.min(...[...document.querySelectorAll("section .canvas, section pre:not([hidden])")].map((e) => e.getBoundingClientRect().top))]);
      must(wide <= 320, name + " is " + wide + " px wide");
      must(top < 600, name + " begins at " + top + " px with what it shows");
    }
  },
});
