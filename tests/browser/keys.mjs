// A lesson from the first cell to the last, with a question answered, by keys alone.
//
//   node keys.mjs ADDRESS NOTEBOOK-FILE

import { readFileSync } from "node:fs";
import { open, run, must, shot, scan } from "./lib.mjs";

const [start, file] = process.argv.slice(2);
const { browser, context, page } = await open();
const stored = () => JSON.parse(readFileSync(file, "utf8")).cells;
const committed = stored();
const answer = `"1, 6"`; // of thread 11, slot 0 of local(1, 2).spatial(2, 8).local(1, 2)

await run(browser, () => context.pages(), {
  async "the lesson is found and opened"() {
    await page.goto(start);
    await page.waitForFunction(() => document.querySelector(".say")?.textContent);
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Find" }).waitFor();
    await page.keyboard.type("04 threads registers");
    await page.waitForFunction(() => document.querySelector("#palette-list [aria-selected=true]")?.textContent.includes("04-threads"));
    await page.keyboard.press("Enter");
    await page.waitForURL(/nb\/04/);
    await page.locator(".cell.code").first().waitFor();
    await page.waitForFunction(() => document.body.dataset.editors === "ready");
  },

  async "Shift and Enter go through it, and run it"() {
    const at = () => page.evaluate(() => [...document.querySelectorAll(".cell")].indexOf(document.activeElement?.closest(".cell")));
    for (let i = 0; i < 40 && await at() < 0; i++) await page.keyboard.press("Tab");
    must(await at() === 0, "Tab comes to cell " + await at());
    for (const [i, cell] of committed.entries()) {
      must(await at() === i, "Shift and Enter lead to cell " + await at() + " and not to " + i);
      if (cell.cell_type === "code" && cell.source.join("").includes('answerA := ""')) {
        await page.keyboard.press("Control+End");
        await page.keyboard.press("Backspace");
        await page.keyboard.press("Backspace");
        await page.keyboard.insertText(answer);
      }
      await page.keyboard.press("Shift+Enter");
    }
    await page.waitForFunction(() => !document.querySelector(".cell.busy"));
    const counts = await page.locator(".cell.code .head span").allTextContents();
    must(counts.every((n, i) => n === "[" + (i + 1) + "]"), "the cells ran as " + counts);
    const errors = await page.locator(".out pre.error").allTextContents();
    must(errors.length === 0, "a cell failed: " + errors.join("\n"));
  },

  async "the question is graded, and another is not yet"() {
    const graded = async (name) => page.locator(".cell.code", { hasText: "Grade(" + name + ")" }).locator(".out").textContent();
    must((await graded("answerA")).startsWith("right"), "the answer is graded " + await graded("answerA"));
    must((await graded("answerB")).startsWith("not yet"), "no answer is graded " + await graded("answerB"));
    await page.keyboard.press("Control+s");
    await page.waitForFunction(() => document.querySelector(".state")?.textContent === "saved");
    must(stored().some((c) => c.cell_type === "code" && c.source.join("").includes("answerA := " + answer)), "the answer was not saved");
  },

  async "axe finds nothing in the whole lesson, in any colours"() {
    for (const look of ["light", "dark", "contrast"]) {
      await page.evaluate((look) => localStorage.setItem("tilus-theme", look), look);
      await page.reload();
      await page.locator(".cell.code").first().waitFor();
      await page.waitForFunction(() => document.body.dataset.editors === "ready" && [...document.querySelectorAll(".out img")].every((i) => i.complete));
      const turned = await page.locator(".out .picture.light").first().evaluate((e) => getComputedStyle(e).filter);
      must((turned !== "none") === (look !== "light"), "pictures in " + look + " have the filter " + turned);
      await scan(page, "the lesson in " + look);
      await page.locator(".out .picture").nth(1).scrollIntoViewIfNeeded();
      await shot(page, "keys-lesson-" + look);
    }
  },
});
