// A person works with the kernel in a real JupyterLab: completion, inspection, a
// widget, interrupt, restart, and two lessons from the first cell to the last.
//
//   node kernel.mjs JUPYTERLAB-ADDRESS NOTEBOOK LESSON...

import { open, run, must, shot, cells } from "./lib.mjs";

const [lab, file, ...lessons] = process.argv.slice(2);
const { browser, context, page } = await open();

const { cell, editor, prompt, begin, runCell } = cells(page);
const outputs = (i) => cell(i).locator(".jp-OutputArea-output");

async function go(name) {
  await page.goto(lab + "lab/tree/" + name + "?reset&token=tilus");
  await page.locator(".jp-Notebook .jp-Cell").first().waitFor();
  await idle();
}

const idle = () => page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").waitFor();

// write puts text into a cell in place of what it holds; the cursor is at its end.
async function write(i, text) {
  await editor(i).click();
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");
  await page.keyboard.insertText(text);
}

const text = (i) => outputs(i).allTextContents().then((all) => all.join("\n"));

// command runs an entry of a menu.
async function menu(name, entry) {
  await page.locator(".lm-MenuBar-itemLabel", { hasText: name }).first().click();
  await page.locator(".lm-Menu-itemLabel", { hasText: entry }).first().click();
}

await run(browser, () => context.pages(), {
  async "completion lists members, with their signatures"() {
    await go(file);
    await page.locator(".jp-NotebookPanel .jp-Toolbar-kernelName", { hasText: "Tilus Lab (Go)" }).waitFor();
    await runCell(0);
    await write(1, "L.Th");
    await page.keyboard.press("Tab");
    const popup = page.locator(".jp-Completer");
    // With one match JupyterLab may put it in at once, or ask like for many.
    const put = () => document.querySelectorAll(".jp-Notebook .jp-CodeCell")[1].querySelector(".cm-content").textContent.includes("L.Threads");
    const asked = popup.locator(".jp-Completer-item", { hasText: "Threads" }).first().waitFor().then(() => true, () => false);
    if (await Promise.race([page.waitForFunction(put).then(() => false), asked])) await page.keyboard.press("Enter");
    await page.waitForFunction(put);
    await write(1, "layout.");
    await page.keyboard.press("Tab");
    await popup.locator(".jp-Completer-item").first().waitFor();
    const names = await popup.locator(".jp-Completer-match").allTextContents();
    for (const want of ["Spatial", "Local", "Parse"]) must(names.includes(want), want + " is not among " + names.slice(0, 8));
    await shot(page, "kernel-completion");
    await page.keyboard.press("Escape");
  },

  async "completion knows program text"() {
    await write(2, "%%tile p\nprogram p(a: *f16) {\n  x = Load");
    await page.keyboard.press("Tab");
    const popup = page.locator(".jp-Completer");
    await popup.locator(".jp-Completer-item", { hasText: "LoadGlobal" }).first().waitFor();
    await shot(page, "kernel-completion-tile");
    await page.keyboard.press("Escape");
  },

  async "inspection shows declaration and doc comment"() {
    await write(1, "layout.Parse");
    await page.keyboard.press("Shift+Tab");
    const tip = page.locator(".jp-Tooltip");
    await tip.waitFor();
    await page.waitForFunction(() => /func Parse\(text string\) \(Layout, error\)/.test(document.querySelector(".jp-Tooltip")?.textContent ?? ""));
    await shot(page, "kernel-inspection");
    await page.keyboard.press("Escape");
  },

  async "a slider and a list redraw a layout"() {
    await runCell(3);
    const out = cell(3);
    await out.locator(".jupyter-widgets.widget-slider").waitFor();
    const picture = () => out.locator(".jp-RenderedSVG img, .jp-RenderedSVG svg, .jp-RenderedImage img").first()
      .evaluate((e) => e.src || e.outerHTML);
    await out.locator(".jp-RenderedSVG, .jp-RenderedImage").first().waitFor();
    const before = await picture();
    await out.locator(".widget-slider .noUi-handle").focus();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowRight");
    await out.locator(".widget-readout", { hasText: "4" }).waitFor();
    await page.waitForFunction(([before]) => {
      const e = document.querySelectorAll(".jp-Notebook .jp-CodeCell")[3].querySelector(".jp-RenderedSVG img, .jp-RenderedSVG svg, .jp-RenderedImage img");
      return e && (e.src || e.outerHTML) !== before;
    }, [before]);
    const moved = await picture();
    await out.locator(".widget-dropdown select").selectOption("column_spatial");
    await page.waitForFunction(([before]) => {
      const e = document.querySelectorAll(".jp-Notebook .jp-CodeCell")[3].querySelector(".jp-RenderedSVG img, .jp-RenderedSVG svg, .jp-RenderedImage img");
      return e && (e.src || e.outerHTML) !== before;
    }, [moved]);
    await out.scrollIntoViewIfNeeded();
    await shot(page, "kernel-widget");
    await runCell(4);
    must((await text(4)).trim() === "4 column_spatial", "the cell reads " + (await text(4)));
  },

  async "an interactive view is linked, in a frame of its own"() {
    await runCell(7);
    const frame = cell(7).frameLocator("iframe");
    await frame.locator("figure").nth(1).waitFor();
    await cell(7).scrollIntoViewIfNeeded();
    await frame.locator("figure").first().hover({ position: { x: 60, y: 130 } });
    await frame.locator("#say").getByText(/is held by thread \d+ in slot/).waitFor();
    const lit = await frame.locator(".over path").evaluateAll((all) => all.map((p) => p.getAttribute("d").length > 0));
    must(lit.length === 2 && lit.every(Boolean), "not both views are lit: " + lit);
    await shot(page, "kernel-interactive");
  },

  async "a run is drawn at least ten times a second while it goes on"() {
    await cell(8).scrollIntoViewIfNeeded();
    await page.evaluate(() => {
      window.frames_ = [];
      new MutationObserver(() => {
        const e = document.querySelectorAll(".jp-Notebook .jp-CodeCell")[8].querySelector(".jp-RenderedSVG img, .jp-RenderedSVG svg");
        const now = e && (e.src || e.outerHTML);
        if (now && now !== window.last_) window.frames_.push(performance.now());
        window.last_ = now;
      }).observe(document.querySelectorAll(".jp-Notebook .jp-CodeCell")[8], { childList: true, subtree: true, attributes: true, attributeFilter: ["src"] });
    });
    await begin(8);
    await page.waitForTimeout(600);
    await shot(page, "kernel-live");
    must(await prompt(8, /\[\d+\]/.source), "the run does not end");
    await outputs(8).getByText("ended").first().waitFor();
    const at = await page.evaluate(() => window.frames_);
    const rate = (at.length - 1) / (at.at(-1) - at[0]) * 1000;
    console.log("     " + at.length + " pictures, " + rate.toFixed(1) + " a second");
    must(at.length >= 10 && rate >= 2.5, at.length + " pictures, " + rate.toFixed(1) + " a second"); // a quarter, for busy machines
  },

  async "tables and charts"() {
    await runCell(9);
    await outputs(9).locator("td", { hasText: "dot" }).waitFor();
    await runCell(10);
    await cell(10).locator(".jp-RenderedSVG").waitFor();
    await cell(10).scrollIntoViewIfNeeded();
    await shot(page, "kernel-chart");
  },

  async "interrupt ends a loop and keeps values"() {
    await begin(5);
    must(await prompt(5, /\[\*\]/.source), "the loop does not run");
    await page.waitForTimeout(300);
    await page.locator("jp-button[data-command='notebook:interrupt-kernel'], button[data-command='notebook:interrupt-kernel']").first().click();
    must(await prompt(5, /\[\d+\]/.source), "the loop does not end");
    await outputs(5).getByText("interrupted").first().waitFor();
    await shot(page, "kernel-interrupt");
    await runCell(6);
    must((await text(6)).trim() === "true", "the counter is lost: " + (await text(6)));
  },

  async "restart forgets variables"() {
    // It is idle before, and after.
    await page.evaluate(() => {
      const status = () => document.querySelector(".jp-Notebook-ExecutionIndicator")?.dataset.status;
      new MutationObserver(() => { window.restarted_ ||= status() !== "idle"; }).observe(document.body, { subtree: true, childList: true, attributes: true, attributeFilter: ["data-status"] });
    });
    await menu("Kernel", "Restart Kernel…");
    await page.locator(".jp-Dialog button", { hasText: "Restart" }).last().click();
    await page.locator(".jp-Dialog").waitFor({ state: "detached" });
    await page.waitForFunction(() => window.restarted_);
    await idle();
    await runCell(6);
    await outputs(6).getByText("undefined: n").first().waitFor();
    await shot(page, "kernel-restart");
  },

  ...Object.fromEntries(lessons.map((name) => ["all cells of " + name, async () => {
    await go(name);
    const count = await page.locator(".jp-Notebook .jp-CodeCell").count();
    // The prompts of the file are from another run.
    await menu("Edit", "Clear Outputs of All Cells");
    await page.waitForFunction(() => ![...document.querySelectorAll(".jp-CodeCell .jp-InputPrompt")].some((e) => /\d/.test(e.textContent)));
    // A JupyterLab that is still loading does not hear.
    for (let heard = false, tries = 0; !heard; tries++) {
      must(tries < 4, "JupyterLab does not run " + name);
      await menu("Run", "Run All Cells");
      heard = await page.waitForFunction(() => [...document.querySelectorAll(".jp-CodeCell .jp-InputPrompt")].some((e) => /[\d*]/.test(e.textContent)),
        null, { timeout: 20_000 }).then(() => true, () => false);
    }
    await page.waitForFunction(() => {
      const cells = [...document.querySelectorAll(".jp-Notebook .jp-CodeCell")];
      const ran = (c) => /\[\d+\]/.test(c.querySelector(".jp-InputPrompt").textContent) || c.querySelector(".cm-content").textContent.trim() === "";
      return document.querySelector("[data-mime-type='application/vnd.jupyter.error']") || cells.every(ran);
    }, null, { timeout: 240_000 });
    await idle();
    const done = await page.locator(".jp-CodeCell .jp-InputPrompt").allTextContents();
    const empty = await page.locator(".jp-Notebook .jp-CodeCell").evaluateAll((all) => all.map((c) => c.querySelector(".cm-content").textContent.trim() === ""));
    must(done.every((p, i) => /\[\d+\]/.test(p) || empty[i]), count + " cells, prompts " + done);
    const errors = await page.locator(".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.error'], .jp-RenderedText[data-mime-type='application/vnd.jupyter.error']").allTextContents();
    must(errors.length === 0, "errors: " + errors.join(" | ").slice(0, 400));
    await page.locator(".jp-OutputArea-output svg, .jp-OutputArea-output img").first().scrollIntoViewIfNeeded();
    await shot(page, "kernel-lesson-" + name.slice(0, 2));
  }])),
});
