// How long the explorer takes: from a keystroke, and from the pointer, to the picture.
//
//   node latency.mjs ADDRESS SAMPLES
//
// The last line is JSON: the name of each measurement, its limit and its samples in
// milliseconds.

import { open, drawn, spot } from "./lib.mjs";

const [start, count] = process.argv.slice(2);
const base = new URL(start).origin + "/";
const { browser, page } = await open();

// chains are layouts of 32 threads and so many elements, none twice.
function chains(cells, n) {
  const out = [];
  const each = cells / 32;
  for (let a = 1; a <= each; a *= 2) for (let b = 1; a * b <= each; b *= 2) for (let c = 1; a * b * c <= each; c *= 2) {
    for (const warp of ["spatial(8,4)", "spatial(4,8)", "column_spatial(8,4)", "column_spatial(4,8)", "spatial(2,16)", "spatial(16,2)", "column_spatial(16,2)", "column_spatial(2,16)"]) {
      const chain = `local(${a},${b}).${warp}.local(${c},${each / a / b / c})`;
      const rows = a * c * +/\((\d+)/.exec(warp)[1];
      // Of a screen's shape, as people look at.
      if (rows * rows <= 4 * cells && 4 * rows * rows >= cells) out.push(chain);
    }
  }
  if (out.length < n) throw new Error(cells + " cells: only " + out.length + " layouts");
  const step = out.length / n;
  return Array.from({ length: n }, (_, i) => out[Math.floor(i * step)]);
}

// keystroke types a chain and waits until the frame that shows it is over.
const keystroke = (chain) => page.evaluate(async (chain) => {
  const view = document.querySelector("section.pane");
  const input = view.querySelector(".entry input, .entry textarea");
  const changed = new Promise((done) => new MutationObserver((_, o) => { o.disconnect(); done(); }).observe(view.querySelector(".pictures"), { childList: true }));
  await new Promise(requestAnimationFrame);
  input.value = chain;
  const begin = performance.now();
  input.dispatchEvent(new Event("input", { bubbles: true }));
  await changed;
  await new Promise((done) => requestAnimationFrame(() => { const c = new MessageChannel(); c.port1.onmessage = done; c.port2.postMessage(0); }));
  return performance.now() - begin;
}, chain);

// hover points at a place of the first picture and waits in the same way.
const hover = (x, y) => page.evaluate(async ([x, y]) => {
  const stage = document.querySelector("section.pane .stage");
  const box = stage.getBoundingClientRect();
  await new Promise(requestAnimationFrame);
  const begin = performance.now();
  stage.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + x, clientY: box.top + y, bubbles: true }));
  await new Promise((done) => requestAnimationFrame(() => { const c = new MessageChannel(); c.port1.onmessage = done; c.port2.postMessage(0); }));
  const lit = document.querySelectorAll("section.pane .overlay .hit[d*=M]").length;
  if (lit < 2) throw new Error("the pointer lights " + lit + " pictures");
  return performance.now() - begin;
}, [x, y]);

const rows = [];
await page.goto(start);
await drawn(page);
const opened = [];
for (let i = 0; i < Math.min(+count, 10); i++) {
  const begin = performance.now();
  await page.goto(base);
  await drawn(page);
  opened.push(performance.now() - begin);
}
rows.push({ name: "opening the page to its first picture", limit_ms: 600, ms: opened });
await page.goto(base + "?v=1&p=layout");
await drawn(page);
for (const [cells, limit] of [[1024, 100], [4096, 250], [65536, 1000]]) {
  const ms = [];
  const list = chains(cells, +count + 2);
  for (const [i, chain] of list.entries()) {
    const t = await keystroke(chain);
    if (i >= 2) ms.push(t); // the first ones load and compile
    await page.waitForTimeout(200); // what a picture does after it is shown is over
  }
  rows.push({ name: "keystroke to picture, " + cells + " cells", limit_ms: limit, ms });
}
// Linked views of 4,096 cells, in three panes.
await page.goto(base + "?v=1&p=layout&e=local(4,4).spatial(8,4).local(2,4)&p=layout&e=local(4,4).spatial(8,4).local(2,4)&p=reinterpret");
await page.waitForFunction(() => document.querySelectorAll(".stage > svg:first-child").length >= 5);
const ms = [];
for (let i = 0; i < +count + 2; i++) {
  const { position } = await spot(page.locator("section.pane .stage").first(), 2 + 3 * (i % 17), 2 + 3 * (i % 20));
  const t = await hover(position.x, position.y);
  if (i >= 2) ms.push(t);
}
rows.push({ name: "pointer to linked elements, 4096 cells", limit_ms: 50, ms });
await browser.close();
console.log(JSON.stringify(rows));
