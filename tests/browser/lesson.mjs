// The first lesson in the explorer: it opens, runs and saves through our worker.
//
//   node lesson.mjs ADDRESS NOTEBOOK-FILE

import { readFileSync } from "node:fs";
import { open, run, must, shot, scan, redrawn } from "./lib.mjs";

const [start, file] = process.argv.slice(2);
const base = new URL(start).origin + "/";
const { browser, context, page } = await open();
const stored = () => JSON.parse(readFileSync(file, "utf8"));
const code = (nb) => nb.cells.filter((c) => c.cell_type === "code");
const committed = stored();
const cells = () => page.locator(".cell.code");
const state = (text) => page.waitForFunction((text) => document.querySelector(".state")?.textContent === text, text);
const complaints = [];
page.on("console", (m) => { if (m.type() === "error") complaints.push(m.text()); });
page.on("pageerror", (e) => complaints.push(String(e)));

// images are the pictures that are really drawn, in a cell or the page.
const images = (root) => root.locator(".out img").evaluateAll((all) => all.filter((i) => i.complete && i.naturalWidth > 0).length);
const count = (nb) => code(nb).flatMap((c) => c.outputs).filter((o) => o.data?.["image/svg+xml"] || o.data?.["image/png"]).length;

await run(browser, () => context.pages(), {
  async "the lesson opens with its stored outputs"() {
    await page.goto(start);
    await page.getByRole("navigation").getByRole("link", { name: "Learn" }).click();
    await page.waitForURL(base + "nb/01");
    await page.getByRole("heading", { name: "Low-precision matrix multiplication" }).waitFor();
    must(await cells().count() === code(committed).length, "cells are missing");
    await page.waitForFunction((n) => [...document.querySelectorAll(".out img")].filter((i) => i.complete && i.naturalWidth > 0).length === n, count(committed));
  },

  async "axe finds nothing, in light and dark"() {
    for (const scheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: scheme });
      await scan(page, scheme);
      await shot(page, "lesson-" + scheme);
      await shot(page, "lesson-whole-" + scheme, { fullPage: true });
    }
    await page.emulateMedia({ colorScheme: "light" });
  },

  async "all cells run in the worker"() {
    await page.evaluate(() => { for (const e of document.querySelectorAll(".out > *")) e.dataset.stored = "1"; });
    await page.getByRole("button", { name: "Run all" }).click();
    await page.waitForFunction(() => /^all cells ran$|failed/.test(document.querySelector(".state").textContent));
    const errors = await page.locator(".out pre.error").allTextContents();
    must(errors.length === 0, "a cell failed: " + errors.join("\n"));
    must(await page.locator(".out > [data-stored]").count() === 0, "an output is still that of the file");
    await page.waitForFunction(() => [...document.querySelectorAll(".out img")].every((i) => i.complete));
    must(await images(page) === count(committed), "there are " + await images(page) + " pictures, in the file " + count(committed));
    const right = await cells().last().locator(".out").textContent();
    must(right.includes("tilus-lab") || right.includes("interp"), "the last cell printed " + right);
    await page.locator(".links").first().scrollIntoViewIfNeeded();
    await shot(page, "lesson-ran");
    await page.locator(".out img").last().scrollIntoViewIfNeeded();
    await shot(page, "lesson-view");
  },

  async "what a cell shows opens in the explorer: a variable, and a View"() {
    const view = page.locator(".links").filter({ hasText: "i6 local" });
    must(!(await view.textContent()).includes("operandB"), "the cell of the View links what it only used: " + await view.textContent());
    for (const [name, part, sentence] of [["operandB", "operandB", "[16, 8]"], ["i6 local", "p=reinterpret", "A thread holds 3 u8 = 24 bits; read as i6"]]) {
      const [other] = await Promise.all([context.waitForEvent("page"), page.locator(".links a", { hasText: name }).first().click()]);
      await redrawn(other, sentence);
      must(other.url().includes(part), "the address is " + other.url());
      await shot(other, "lesson-explorer-" + name.slice(0, 2));
      await other.close();
    }
  },

  async "what ran is saved as Jupyter has it"() {
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await state("saved");
    const nb = stored();
    must(nb.nbformat === 4 && nb.cells.length === committed.cells.length, "cells were lost");
    must(JSON.stringify(nb.cells.map((c) => c.source)) === JSON.stringify(committed.cells.map((c) => c.source)), "saving changed a source");
    must(nb.metadata.kernelspec.name === committed.metadata.kernelspec.name, "metadata were lost");
    must(code(nb).every((c, i) => c.execution_count === i + 1), "the counts are " + code(nb).map((c) => c.execution_count));
    must(count(nb) === count(committed), "pictures were lost");
  },

  async "a change is saved and opens again"() {
    await page.waitForFunction(() => document.body.dataset.editors === "ready");
    await cells().first().getByRole("textbox", { name: "Code of the cell" }).fill("x := 41 + 1\nx");
    await cells().first().getByRole("button", { name: "run" }).click();
    await cells().first().locator(".out", { hasText: "42" }).waitFor();
    await page.waitForFunction(() => !document.querySelector(".cell.busy")); // what a cell shows is stored when it has ended
    await page.keyboard.press("Control+s");
    await state("saved");
    await page.reload();
    await cells().first().locator(".out", { hasText: "42" }).waitFor();
    must(await cells().first().locator("textarea").inputValue() === "x := 41 + 1\nx", "the change was not saved");
  },

  async "behind a cell that is interrupted nothing that waits runs"() {
    await page.waitForFunction(() => document.body.dataset.editors === "ready");
    const before = await cells().nth(1).locator(".out").innerHTML();
    await cells().first().getByRole("textbox", { name: "Code of the cell" }).fill(`println("begun")\nfor {\n}`);
    await cells().first().getByRole("textbox", { name: "Code of the cell" }).press("Shift+Enter");
    for (const i of [1, 2]) {
      await cells().nth(i).getByRole("textbox", { name: "Code of the cell" }).press("Control+Enter");
      must(await cells().nth(i).locator(".head span").textContent() === "[*]", "cell " + i + " does not wait");
    }
    await cells().first().locator(".out", { hasText: "begun" }).waitFor();
    await page.getByRole("button", { name: "Interrupt" }).click();
    await state("stopped at a cell that failed: 2 behind it did not run");
    must(await page.locator(".cell.busy").count() === 0, "a cell still waits");
    must(await cells().nth(1).locator(".head span").textContent() === "[2]", "the count of cell 1 is " + await cells().nth(1).locator(".head span").textContent());
    must(await cells().nth(1).locator(".out").innerHTML() === before, "the output of a cell that did not run has changed");
  },

  async "an interrupt ends a cell whose worker is still starting"() {
    await page.goto(base + "nb/02");
    await page.waitForFunction(() => document.body.dataset.editors === "ready");
    const box = cells().first().getByRole("textbox", { name: "Code of the cell" });
    await box.fill("for {\n}");
    await page.evaluate(async () => {
      document.querySelector(".cell.code .head button").click();
      await new Promise((soon) => setTimeout(soon));
      [...document.querySelectorAll(".bar button")].find((b) => b.textContent === "Interrupt").click();
    });
    await page.waitForFunction(() => !document.querySelector(".cell.busy"));
    await box.fill("4000 + 3");
    await box.press("Control+Enter");
    await cells().first().locator(".out", { hasText: "4003" }).waitFor();
  },

  async "a cell reads what a control was moved to before it"() {
    await page.goto(base + "nb/03");
    await page.waitForFunction(() => document.body.dataset.editors === "ready");
    const box = cells().first().getByRole("textbox", { name: "Code of the cell" });
    await box.fill(`m := lab.Slider("m", 1, 99, 1)\nm`);
    await box.press("Control+Enter");
    const slider = cells().first().getByRole("slider", { name: "m" });
    await slider.waitFor();
    await cells().nth(1).getByRole("textbox", { name: "Code of the cell" }).fill("m.Int()");
    for (const to of [17, 42, 63]) {
      await page.evaluate((to) => {
        const slider = document.querySelector(".cell.code input[type=range]");
        slider.value = to;
        slider.dispatchEvent(new Event("input"));
        document.querySelectorAll(".cell.code")[1].querySelector(".head button").click();
      }, String(to));
      await page.waitForFunction(() => !document.querySelector(".cell.busy"));
      must((await cells().nth(1).locator(".out").textContent()).startsWith(String(to)), "moved to " + to + ", the cell reads " + await cells().nth(1).locator(".out").textContent());
    }
  },

  async "nothing complained"() {
    must(complaints.length === 0, complaints.join("\n"));
  },
});
