// What the scripts of this folder share: a browser, checks by name, screenshots.
//
// TILUS_NODE is the folder that holds node_modules, TILUS_CHROMIUM the browser,
// TILUS_LAB_SHOTS a folder for screenshots or nothing.

import { createRequire } from "node:module";
import { mkdirSync, readFileSync } from "node:fs";
import path from "node:path";

const require = createRequire(path.join(process.env.TILUS_NODE, "package.json"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const shots = process.env.TILUS_LAB_SHOTS;
if (shots) mkdirSync(shots, { recursive: true });

export function must(ok, message) {
  if (!ok) throw new Error(message);
}

// open starts a browser with one page. No step may take longer than a minute.
export async function open() {
  const browser = await chromium.launch({ executablePath: process.env.TILUS_CHROMIUM, args: ["--no-sandbox"] });
  const context = await browser.newContext({ viewport: { width: 1360, height: 900 } });
  context.setDefaultTimeout(60_000);
  return { browser, context, page: await context.newPage() };
}

export async function shot(page, name, options = {}) {
  if (shots) await page.screenshot({ path: path.join(shots, name + ".png"), animations: "disabled", ...options });
}

// scan is axe-core with all its rules. A pane that waits for a slow answer is pale meanwhile: that is over first.
export async function scan(page, where) {
  await page.evaluate(axe); // not as a script element, which the page's policy refuses
  let violations;
  for (let tries = 0, pale = true; pale && tries < 10; tries++) {
    await page.waitForFunction(() => !document.querySelector(".stale"));
    ({ violations, pale } = await page.evaluate(async () => {
      let pale = false;
      const watch = new MutationObserver(() => { pale ||= !!document.querySelector(".stale"); });
      watch.observe(document.body, { subtree: true, attributes: true, attributeFilter: ["class"] });
      const { violations } = await window.axe.run();
      watch.disconnect();
      return { violations, pale: pale && violations.length > 0 };
    }));
  }
  const line = (v) => v.impact + " " + v.id + ": " + v.nodes.map((n) => n.html.slice(0, 120)).join(" | ");
  must(violations.length === 0, where + ": " + violations.map(line).join("; "));
}

// trust answers the question before the first cell of a notebook that a test has written.
export const trust = (page, how = "Trust once") => page.getByRole("dialog", { name: "Run the code of" }).getByRole("button", { name: how }).click();

// run does the checks in order, in one browser, and ends the process. Later checks build on
// earlier ones, so the first failure ends the script.
export async function run(browser, pages, checks) {
  let failed = 0;
  for (const [name, check] of Object.entries(checks)) {
    const begin = Date.now();
    try {
      await check();
      console.log("ok   " + name + " (" + (Date.now() - begin) + " ms)");
    } catch (e) {
      failed++;
      console.log("FAIL " + name + ": " + e.message);
      for (const [i, page] of pages().entries()) await shot(page, "failed-" + path.basename(process.argv[1], ".mjs") + "-" + i).catch(() => {});
      break;
    }
  }
  await browser.close();
  process.exit(failed ? 1 : 0);
}

// The explorer's first pane.
export const layout = (page) => page.locator("section.pane").first();
export const pictures = (page) => page.locator("section.pane").first().locator(".stage > svg:first-child")
  .evaluateAll((all) => all.map((e) => e.outerHTML));
export const drawn = (page) => page.locator("section.pane").first().locator(".stage > svg").first().waitFor();

// spot is the middle of an element of the tensor view in a locator, however high the caption above it is: the first cells
// that are drawn begin at (0, 0), and are as high as one element is wide.
export async function spot(picture, row, column) {
  const position = await picture.evaluate((e, [row, column]) => {
    const cells = [...e.querySelectorAll("path")].find((p) => /^M\d+ \d+h\d+v\d+/.test(p.getAttribute("d")));
    const [, x, y, size] = cells.getAttribute("d").match(/^M(\d+) (\d+)h\d+v(\d+)/).map(Number);
    const at = new DOMPoint(x + size * (column + 0.5), y + size * (row + 0.5)).matrixTransform(cells.getScreenCTM());
    const box = e.getBoundingClientRect();
    return { x: at.x - box.x, y: at.y - box.y };
  }, [row, column]);
  return { position };
}

// redrawn waits until the sentence of the first pane holds a text.
export const redrawn = (page, text) => page.waitForFunction((text) => document.querySelector("section.pane .say")?.textContent.includes(text), text);

// cells are what a person does with code cells of the notebook that a JupyterLab shows, counted from 0.
export function cells(page) {
  const cell = (i) => page.locator(".jp-Notebook .jp-CodeCell").nth(i);
  const editor = (i) => cell(i).locator(".cm-content");
  // prompt tells whether the number beside a cell comes to look like a pattern.
  const prompt = (i, pattern, timeout = 60_000) => page.waitForFunction(([i, pattern]) =>
    new RegExp(pattern).test(document.querySelectorAll(".jp-Notebook .jp-CodeCell")[i].querySelector(".jp-InputPrompt").textContent),
    [i, pattern], { timeout }).then(() => true, () => false);
  // begin clicks into a cell and presses Shift+Enter, again when a JupyterLab that is still loading did not hear it.
  const begin = async (i) => {
    for (let heard = false, tries = 0; !heard; tries++) {
      must(tries < 6, "JupyterLab does not run cell " + i);
      await editor(i).click();
      if (!await cell(i).locator(".cm-editor.cm-focused").waitFor({ timeout: 3000 }).then(() => true, () => false)) continue;
      await page.keyboard.press("Shift+Enter");
      heard = await prompt(i, /\[[*\d]+\]/.source, 15_000);
    }
  };
  const ended = async (i) => must(await prompt(i, /\[\d+\]/.source), "cell " + i + " does not end");
  const runCell = async (i) => { await begin(i); await ended(i); };
  return { cell, editor, prompt, begin, ended, runCell };
}
