// A slider and a list in the explorer's notebook redraw a layout.
//
//   node widget.mjs ADDRESS NAME NOTEBOOK-FILE

import { readFileSync } from "node:fs";
import { open, run, must, shot, scan, trust } from "./lib.mjs";

const [start, name, file] = process.argv.slice(2);
const { browser, context, page } = await open();
const cell = (i) => page.locator(".cell.code").nth(i);
const done = (i) => page.waitForFunction((i) => /^\[\d+\]$/.test(document.querySelectorAll(".cell.code")[i].querySelector(".head span").textContent), i);
const picture = (i) => cell(i).locator(".picture img").first().getAttribute("src");
const changed = (i, from) => page.waitForFunction(([i, from]) => {
  const img = document.querySelectorAll(".cell.code")[i].querySelector(".picture img");
  return img && img.src !== from && img.complete && img.naturalWidth > 0;
}, [i, from]);

await run(browser, () => context.pages(), {
  async "the cell shows controls and a picture"() {
    await page.goto(start);
    await page.goto(new URL(start).origin + "/nb/" + name);
    await cell(3).getByRole("button", { name: "run" }).click();
    await trust(page);
    await done(3);
    await cell(3).getByRole("slider", { name: "m" }).waitFor();
    await cell(3).locator(".picture img").waitFor();
    await shot(page, "widget-nb");
    await scan(page, "notebook with controls");
  },

  async "the slider redraws the layout"() {
    const before = await picture(3);
    await cell(3).getByRole("slider", { name: "m" }).focus();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowRight");
    await changed(3, before);
    must(await cell(3).locator(".control output").textContent() === "4", "the slider does not show 4");
    must(await cell(3).locator(".picture").count() === 1, "the picture was not replaced");
  },

  async "the list redraws the layout, and cells read both"() {
    const before = await picture(3);
    await cell(3).getByRole("combobox", { name: "order" }).selectOption("column_spatial");
    await changed(3, before);
    await cell(4).getByRole("button", { name: "run" }).click();
    await done(4);
    must((await cell(4).locator(".out").textContent()).includes("4 column_spatial"), "the cell reads " + await cell(4).locator(".out").textContent());
    await cell(3).scrollIntoViewIfNeeded();
    await shot(page, "widget-nb-moved");
  },

  async "an interactive view runs in a frame that reaches nothing"() {
    await cell(7).getByRole("button", { name: "run" }).click();
    await done(7);
    const outer = cell(7).locator("iframe");
    await outer.waitFor();
    must(await outer.getAttribute("sandbox") === "allow-scripts", "the sandbox is " + await outer.getAttribute("sandbox"));
    const frame = cell(7).frameLocator("iframe").frameLocator("iframe");
    await frame.locator("figure").first().hover({ position: { x: 60, y: 130 } });
    await frame.locator("#say").getByText(/is held by thread \d+ in slot/).waitFor();
    const reached = await cell(7).frameLocator("iframe").locator("body").evaluate(() => { try { return parent.document.title; } catch (e) { return "refused"; } });
    must(reached === "refused", "the frame reads " + reached);
    await cell(7).scrollIntoViewIfNeeded();
    await shot(page, "widget-nb-frame");
  },

  async "the file has the last picture"() {
    await page.getByRole("button", { name: "Save" }).click();
    await page.waitForFunction(() => document.querySelector(".state").textContent === "saved");
    const text = JSON.stringify(JSON.parse(readFileSync(file, "utf8")).cells[3].outputs);
    must(text.includes("local(4, 1).column_spatial(8, 4)"), "it has " + text.slice(0, 300));
  },
});
