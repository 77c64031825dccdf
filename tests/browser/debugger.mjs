// A person debugs Go cells and a tile program in a real JupyterLab.
//
//   node debugger.mjs JUPYTERLAB-ADDRESS NOTEBOOK

import { open, run, must, shot, cells } from "./lib.mjs";

const [lab, file] = process.argv.slice(2);
const { browser, context, page } = await open();

const { cell, begin, ended } = cells(page);
const side = page.locator("#jp-debugger-sidebar");
const frames = side.locator(".jp-DebuggerCallstackFrame");

// breakpoint clicks beside a line of a cell, from 1; the first element of the gutter only gives it its width.
async function breakpoint(i, line) {
  await cell(i).locator(".cm-gutter.cm-breakpoint-gutter > .cm-gutterElement").nth(line).click();
  await side.locator(".jp-DebuggerBreakpoint-line", { hasText: new RegExp("^" + line + "$") }).first().waitFor();
}

// stopped waits until the innermost frame has a name and a line.
const stopped = (name, line) => frames.first().filter({ hasText: name }).filter({ hasText: new RegExp(":" + line + "$") }).waitFor();

const press = (command) => side.locator("[data-command='debugger:" + command + "']").first().click();

// item is a variable in the tree, and its parts.
const item = (name) => side.locator("jp-tree-item").filter({ has: page.locator(":scope > .jp-DebuggerVariables-name").getByText(name, { exact: true }) }).first();
const holds = (name, value) => item(name).locator(":scope > .jp-DebuggerVariables-detail").filter({ hasText: value }).waitFor();

await run(browser, () => context.pages(), {
  async "the debugger can be turned on"() {
    await page.goto(lab + "lab/tree/" + file + "?reset&token=tilus");
    await page.locator(".jp-Notebook .jp-Cell").first().waitFor();
    await page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").waitFor();
    // A JupyterLab that is still loading may forget the click; then the side bar has no title.
    for (let on = false, tries = 0; !on; tries++) {
      must(tries < 8, "the debugger does not come on");
      await page.locator(".jp-DebuggerBugButton[aria-disabled=false]").first().click();
      on = await side.locator("h2", { hasText: file }).waitFor({ state: "attached", timeout: 20_000 }).then(() => true, () => false);
    }
    await cell(0).locator(".cm-gutter.cm-breakpoint-gutter").waitFor({ state: "attached" });
    if (!await side.isVisible()) await page.locator("[data-id='jp-debugger-sidebar']").click();
    await side.waitFor();
  },

  async "a breakpoint in a function stops, shows variables and lets go on"() {
    await begin(0);
    await ended(0);
    await breakpoint(0, 3);
    await begin(1);
    await stopped("grow", 3);
    must(await frames.count() === 2, (await frames.count()) + " frames");
    await holds("by", "0");
    await holds("twice", "0");
    await holds("l", "local(2, 1).spatial(8, 4)");
    await shot(page, "debugger-go");
    await press("continue");
    await holds("by", "1");
    await press("stepOut");
    await stopped("cell", 4);
    await cell(0).locator(".cm-gutter.cm-breakpoint-gutter > .cm-gutterElement").nth(3).click();
    await side.locator(".jp-DebuggerBreakpoint").waitFor({ state: "detached" });
    await press("continue");
    await ended(1);
    must(/^\s*102\s*$/.test(await cell(1).locator(".jp-OutputArea-output").last().textContent()), "the sum is another");
  },

  async "a tile program stops inside its k loop and shows a fragment"() {
    await begin(2);
    await ended(2);
    await breakpoint(2, 11);
    await begin(3);
    await stopped("mm, block (0, 0, 0)", 11);
    await frames.nth(1).getByText("k = 0").waitFor();
    await press("continue");
    await frames.nth(1).getByText("k = 1").waitFor();
    await holds("k", "1");
    await item("acc").locator(":scope > .jp-DebuggerVariables-name").click();
    await item("acc").press("ArrowRight");
    await holds("thread 5", "632 632 4728 4728");
    await item("acc").scrollIntoViewIfNeeded();
    await shot(page, "debugger-tile");
    await item("acc").locator(":scope > .jp-DebuggerVariables-name").click({ button: "right" });
    await page.locator(".lm-Menu-itemLabel", { hasText: "Render Variable" }).first().click();
    await page.locator(".jp-DebuggerRichVariable .jp-VariableRendererPanel-renderer").waitFor();
    await shot(page, "debugger-fragment");
    await cell(2).locator(".cm-gutter.cm-breakpoint-gutter > .cm-gutterElement").nth(11).click();
    await side.locator(".jp-DebuggerBreakpoint").waitFor({ state: "detached" });
    await press("continue");
    await ended(3);
    must(/^\s*32240\s*$/.test(await cell(3).locator(".jp-OutputArea-output").last().textContent()), "the product is another");
  },
});
