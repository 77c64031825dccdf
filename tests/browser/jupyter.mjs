// A cell that runs in a real JupyterLab changes a picture of the explorer.
//
//   node jupyter.mjs JUPYTERLAB-ADDRESS EXPLORER-ADDRESS

import { open, run, must, shot, layout, pictures, drawn, redrawn } from "./lib.mjs";

const [lab, start] = process.argv.slice(2);
const { browser, context, page: explorer } = await open();
const notebook = await context.newPage();
let linked;

const cell = (i) => notebook.locator(".jp-Notebook .jp-CodeCell").nth(i);
const outputs = (i) => cell(i).locator(".jp-OutputArea-output");

// go opens a notebook.
async function go(name) {
  await notebook.goto(lab + "lab/tree/" + name + "?reset&token=tilus"); // reset: no other notebook beside it
  await notebook.locator(".jp-Notebook .jp-Cell").first().waitFor();
}

// prompt waits until the prompt of a cell matches; false after a while.
const prompt = (i, pattern, timeout) => notebook.waitForFunction(([i, pattern]) =>
  new RegExp(pattern).test(document.querySelectorAll(".jp-Notebook .jp-CodeCell")[i].querySelector(".jp-InputPrompt").textContent),
  [i, pattern], { timeout }).then(() => true, () => false);

// runCell is what a person does: click into the cell, Shift+Enter, and again when
// JupyterLab, which is still loading, did not hear it.
async function runCell(i) {
  for (let heard = false, tries = 0; !heard; tries++) {
    must(tries < 6, "JupyterLab does not run cell " + i);
    await cell(i).locator(".cm-content").click();
    await cell(i).locator(".cm-editor.cm-focused").waitFor();
    await notebook.keyboard.press("Shift+Enter");
    heard = await prompt(i, /\[[*\d]+\]/.source, 15_000);
  }
  must(await prompt(i, /\[\d+\]/.source, 60_000), "cell " + i + " does not end");
}

await run(browser, () => context.pages(), {
  async "an untrusted notebook shows its committed pictures"() {
    await go("01-low-precision-matmul.ipynb");
    const file = await notebook.evaluate(async (at) => (await fetch(at)).json(), lab + "api/contents/01-low-precision-matmul.ipynb?token=tilus");
    const want = file.content.cells.flatMap((c) => c.outputs ?? []).filter((o) => o.data?.["image/svg+xml"]).length;
    must(want > 0 && file.content.cells.every((c) => c.metadata.trusted !== true), "the notebook is trusted, or has no pictures");
    await notebook.waitForFunction((n) => [...document.querySelectorAll(".jp-OutputArea-output img")].filter((i) => i.complete && i.naturalWidth > 0).length === n, want);
    must(await notebook.locator(".jp-OutputArea-output svg").count() === 0, "JupyterLab shows SVG, so it trusts the notebook");
    const blown = await notebook.locator(".jp-OutputArea-output img").evaluateAll((all) => all.filter((i) => i.width * 2 > i.naturalWidth).length);
    must(blown === 0, blown + " pictures are larger than their SVG, which has half the pixels of the PNG");
    await notebook.locator(".jp-OutputArea-output img").first().scrollIntoViewIfNeeded();
    await shot(notebook, "jupyter-untrusted");
  },

  async "a cell shows a layout"() {
    await explorer.goto(start);
    await drawn(explorer);
    await go("live.ipynb");
    await notebook.locator(".jp-NotebookPanel .jp-Toolbar-kernelName", { hasText: "Tilus Lab (Go)" }).waitFor();
    await notebook.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").waitFor();
    await runCell(0);
    await cell(0).locator(".jp-RenderedSVG, .jp-OutputArea-output svg").first().waitFor();
    await shot(notebook, "jupyter-cell");
  },

  async "Open in explorer opens the variable"() {
    const link = outputs(0).getByRole("link", { name: "L", exact: true });
    await outputs(0).getByText("Open in explorer").waitFor();
    await link.scrollIntoViewIfNeeded();
    await shot(notebook, "jupyter-link");
    [linked] = await Promise.all([context.waitForEvent("page"), link.click()]);
    await redrawn(linked, "[16, 8]");
    must(/e=(\$|%24)L(@|%40)/.test(linked.url()), "the address is " + linked.url());
    must(new URL(linked.url()).origin === new URL(start).origin, "the address is " + linked.url());
  },

  async "a pane is bound to the variable by hand"() {
    const pick = layout(explorer).getByRole("combobox", { name: /take from a notebook/ });
    await pick.locator("option", { hasText: "L in live.ipynb" }).first().waitFor({ state: "attached" });
    const name = (await pick.locator("option").allTextContents()).find((o) => o === "L in live.ipynb");
    must(name, "the explorer does not know L");
    await pick.selectOption({ label: name });
    await redrawn(explorer, "[16, 8]");
    for (const page of [explorer, linked]) {
      const chip = await layout(page).locator(".chip span").textContent();
      must(chip === "L in live.ipynb", "the bound field shows " + chip);
    }
    await shot(explorer, "jupyter-bound");
  },

  async "another cell changes it, and the explorer redraws"() {
    const before = [await pictures(explorer), await pictures(linked)];
    await runCell(1);
    for (const [i, page] of [explorer, linked].entries()) {
      await redrawn(page, "[8, 16]");
      const after = await pictures(page);
      must(after.length === 2 && after[0] !== before[i][0] && after[1] !== before[i][1], "not both pictures changed");
    }
    await shot(explorer, "jupyter-changed");
  },

  async "lab.Explore shows a value on the page"() {
    await runCell(2);
    await redrawn(explorer, "[2, 16]");
    must(await layout(explorer).locator("input[type=text]").first().inputValue() === "column_spatial(2, 16)", "the field does not hold the value");
    must(await cell(2).locator("[data-mime-type='application/vnd.jupyter.stderr']").count() === 0, "the cell complained");
    await shot(explorer, "jupyter-explore");
  },

  async "running kernels are listed with layouts and tensors"() {
    await runCell(3);
    await explorer.goto(new URL(start).origin + "/nb/");
    const running = explorer.locator(".running li", { hasText: "live" });
    const tensor = running.getByRole("link", { name: "T", exact: true });
    await tensor.waitFor();
    must(await running.getByRole("link", { name: "L", exact: true }).count() === 1, "the layout is not listed");
    await tensor.click();
    await redrawn(explorer, "f16[4, 4]: 16 elements from 0 to 15");
    must(await layout(explorer).locator(".chip span").textContent() === "T in live.ipynb", "the pane is not bound to the tensor");
    await shot(explorer, "jupyter-tensor");
  },
});
