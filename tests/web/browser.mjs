// Drives the explorer in a real Chromium. Each check is a named function; the
// script prints one line for each and ends with status 1 if any failed.
//
//   node browser.mjs START_URL
//
// TILUS_NODE is the folder that holds node_modules, TILUS_CHROMIUM the browser,
// TILUS_SHOTS a folder for screenshots or nothing, TILUS_PUSH an address that
// makes the server receive a changed variable from a notebook.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import path from "node:path";

const require = createRequire(path.join(process.env.TILUS_NODE, "package.json"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const shots = process.env.TILUS_SHOTS;
const start = process.argv[2];
const base = new URL(start).origin + "/";

function must(ok, message) {
  if (!ok) throw new Error(message);
}

const browser = await chromium.launch({ executablePath: process.env.TILUS_CHROMIUM, args: ["--no-sandbox"] });
const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
const page = await context.newPage();
const foreign = [], complaints = [], blocked = [];
page.on("request", (r) => { if (!r.url().startsWith(base) && !r.url().startsWith("data:") && !r.url().startsWith("ws:")) foreign.push(r.url()); });
page.on("console", (m) => {
  // The notebook of this test brings a script; that Chromium did not run it is what we want to hear.
  if (m.type() === "error") (/^Blocked script execution in .*\/frame\//.test(m.text()) ? blocked : complaints).push(m.text());
});
page.on("pageerror", (e) => complaints.push(String(e)));

const layout = () => page.locator("section.pane").first();
const field = () => layout().locator("input[type=text]").first();
const svg = () => layout().locator(".stage > svg:first-child").first().evaluate((e) => e.outerHTML);
const settled = async () => { await page.waitForFunction(() => document.querySelectorAll(".stage svg").length > 0); };

// editors waits until texts of several lines have become editors.
const editors = () => page.waitForFunction(() => document.body.dataset.editors === "ready");

// type replaces the chain and waits until the picture shows it or an error.
async function type(text) {
  await field().fill(text);
  await page.waitForTimeout(30);
}

async function scan(where) {
  await page.evaluate(axe); // not as a script element, which the page's policy refuses
  const r = await page.evaluate(() => window.axe.run());
  must(r.violations.length === 0, where + ": " + r.violations.map((v) => v.id + " " + v.nodes[0].html.slice(0, 120)).join("; "));
}

const checks = {
  async "the token leaves the address and the page is never blank"() {
    const begin = Date.now();
    await page.goto(start);
    await settled();
    must(Date.now() - begin < 5000, "the first picture took " + (Date.now() - begin) + " ms");
    must(!page.url().includes("token"), "the address still holds the token: " + page.url());
    const say = await layout().locator(".say").textContent();
    must(say.includes("Thread 5 slot 2 holds (9, 2)"), "the sentence is " + say);
    must(await page.locator(".stage").count() === 3, "two views and the bits are shown");
    if (shots) await page.screenshot({ path: shots + "/start-light.png", fullPage: true });
  },

  async "the picture follows typing, without a button"() {
    const before = await svg();
    await field().click();
    await page.keyboard.press("Control+A");
    await page.keyboard.type("local(2, 1).spatial(4, 8).local(1, 2)");
    await page.waitForFunction((old) => document.querySelector(".stage svg").outerHTML !== old, before);
    await page.waitForFunction(() => document.querySelector(".say").textContent.includes("[8, 16]"));
    must(page.url().includes("e=local(2,+1).spatial(4,+8)"), "the address does not follow: " + page.url());
  },

  async "an error keeps the picture and marks its place"() {
    const before = await svg();
    for (const text of ["local(2,1).spatal(8,4)", "local(2,1", "local(0)", "", "7:", "local(2,1).spatial(8,4).local(1,2)]", "local(99999999)", "ä.local(2)", "<b>x</b>"]) {
      await type(text);
      await layout().locator(".errors").waitFor({ state: "visible" });
      must(await svg() === before, "the picture changed on " + JSON.stringify(text));
      must(await field().getAttribute("aria-invalid") === "true", "the field is not marked for " + text);
    }
    await type("local(2,1).spatal(8,4)");
    await page.waitForFunction(() => document.querySelector(".mark u")?.textContent === "spatal");
    must((await layout().locator(".errors").textContent()).includes("spatial"), "no suggestion");
    if (shots) await layout().screenshot({ path: shots + "/error.png" });
    await type("local(2, 1).spatial(8, 4).local(1, 2)");
    await layout().locator(".errors").waitFor({ state: "hidden" });
  },

  async "pointing at a cell lights it in both views"() {
    // Row 9, column 2 of the tensor view; its box is in the page's own table.
    const stage = layout().locator(".stage").first();
    const box = await stage.boundingBox();
    const cell = await page.evaluate(async () => {
      const svg = document.querySelector(".stage svg");
      const texts = [...svg.querySelectorAll("text")];
      return texts.length;
    });
    must(cell > 0, "no texts in the picture");
    await page.mouse.move(box.x + box.width * 0.5, box.y + box.height * 0.62);
    await page.waitForFunction(() => document.querySelectorAll(".hit[d*=M]").length === 2);
    const say = await layout().locator(".say").textContent();
    must(/is held by thread \d+ in slot \d/.test(say), "the sentence is " + say);
    await page.mouse.click(box.x + box.width * 0.5, box.y + box.height * 0.62);
    await page.mouse.move(2, 2);
    must(await layout().locator(".hit[d*=M]").count() === 2, "a click does not pin");
    if (shots) await layout().screenshot({ path: shots + "/linked.png" });
    await layout().locator(".canvas").first().press("Escape");
    must(await layout().locator(".hit[d*=M]").count() === 0, "Escape does not clear");
  },

  async "cells are reached by keys and spoken"() {
    await layout().locator(".canvas").nth(1).focus();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowDown");
    const said = await page.locator("#live").textContent();
    must(said.startsWith("thread 1 slot 1 holds (0, 3)"), "said " + said);
    await page.keyboard.press("Escape");
  },

  async "the reinterpretation is drawn at widths 1 to 8"() {
    const pane = page.locator("section.pane").nth(1);
    for (let w = 1; w <= 8; w++) {
      await pane.locator("input[type=range]").fill(String(w));
      await page.waitForFunction((w) => document.querySelectorAll("section.pane")[1].querySelector(".say").textContent.includes("read as i" + w), w);
      must(await pane.locator(".errors").isHidden(), "an error at width " + w);
    }
    await pane.locator("input[type=range]").fill("6");
    await page.waitForFunction(() => document.querySelectorAll("section.pane")[1].querySelector(".say").textContent.includes("read as i6"));
    await pane.locator("input[type=range]").dispatchEvent("change");
  },

  async "the address is the state"() {
    await page.goto(base + "?v=1&p=layout&e=spatial(4,8).local(2,2)&pal=okabe-ito&newer=1");
    await settled();
    const one = await layout().locator(".stage svg").first().evaluate((e) => e.outerHTML);
    await page.reload();
    await settled();
    must(await layout().locator(".stage svg").first().evaluate((e) => e.outerHTML) === one, "reloading gives another picture");
    await type("spatial(8,4)");
    await field().blur();
    await page.waitForFunction(() => location.search.includes("spatial(8,4)"));
    await page.goBack();
    await page.waitForFunction(() => document.querySelector("section.pane input[type=text]").value === "spatial(4,8).local(2,2)");
  },

  async "answers come in time"() {
    await page.goto(base + "?v=1&p=layout");
    await settled();
    // Times are printed; that every size is answered at all holds on any machine.
    for (const chain of ["spatial(8,4).local(4,8)", "local(4,4).spatial(8,4).local(2,4)", "local(8,8).spatial(8,4).local(4,8)"]) {
      const times = [];
      for (let i = 0; i < 6; i++) {
        times.push(await page.evaluate(async ([chain, i]) => {
          const input = document.querySelector("section.pane input[type=text]");
          const say = document.querySelector(".pictures");
          const done = new Promise((go) => new MutationObserver((_, o) => { o.disconnect(); requestAnimationFrame(() => requestAnimationFrame(go)); }).observe(say, { childList: true }));
          input.value = chain + " ".repeat(i);
          const begin = performance.now();
          input.dispatchEvent(new Event("input"));
          await done;
          return performance.now() - begin;
        }, [chain, i]));
      }
      times.sort((a, b) => a - b);
      console.log("  " + chain + ": median " + Math.round(times[3]) + " ms, slowest " + Math.round(times[5]) + " ms");
    }
  },

  async "a large picture has its texts on a canvas, and is linked"() {
    await page.goto(base + "?v=1&p=layout&e=local(4,4).spatial(8,4).local(2,4)");
    await page.waitForSelector(".stage canvas");
    await page.waitForTimeout(600); // what does not show at first comes later
    const dark = await layout().locator("canvas.texts").first().evaluate((c) => {
      // Of the first and of the last cell: pixels that a letter has drawn.
      const scale = c.width / parseFloat(c.style.width), n = Math.round(60 * scale);
      return [[0, 0], [c.width - n, c.height - n]].map(([x, y]) => c.getContext("2d").getImageData(x, y, n, n).data.filter((v, i) => i % 4 === 3 && v > 128).length);
    });
    must(dark.every((n) => n > 20), "letters are missing: " + dark);
    const box = await layout().locator(".stage").first().boundingBox();
    await page.mouse.move(box.x + 300, box.y + 300);
    await page.waitForFunction(() => document.querySelectorAll(".hit[d*=M]").length === 2);
    await page.mouse.move(2, 2);
  },

  async "a picture bound to a variable follows the notebook"() {
    await page.goto(base + "?v=1&p=layout&e=$acc@s1");
    await settled();
    await page.waitForFunction(() => document.querySelector(".say").textContent.includes("[8, 4]"));
    const chip = layout().locator(".chip");
    must((await chip.locator("span").textContent()) === "acc in test.ipynb", "the field shows " + await chip.textContent());
    must(await field().isHidden() && page.url().includes("$acc@s1"), "the bound field shows its reference");
    await scan("a bound field");
    if (shots) await layout().screenshot({ path: shots + "/bound.png" });
    await fetch(process.env.TILUS_PUSH);
    await page.waitForFunction(() => document.querySelector(".say").textContent.includes("[16, 4]"));
    await page.goto(base);
    await settled();
    await fetch(process.env.TILUS_PUSH + "/explore");
    await page.waitForFunction(() => document.querySelector(".say").textContent.includes("[16, 4]"));
    must(page.url().includes("e=$acc@s1"), "lab.Explore does not bind the pane: " + page.url());
    await chip.getByRole("button").click();
    must(await field().inputValue() === "local(2, 1).spatial(8, 4)", "edit gives " + await field().inputValue());
    must(!page.url().includes("$"), "the address is still bound: " + page.url());
  },

  async "an address with an error still shows a picture"() {
    await page.goto(base + "?v=1&p=layout&e=local(2");
    await settled();
    await layout().locator(".errors").waitFor({ state: "visible" });
  },

  async "a picture alone"() {
    await page.goto(base + "?v=1&p=layout&e=spatial(2,2)&embed=1");
    await settled();
    must(await page.locator("header.top").isHidden(), "the header shows in an embedded picture");
  },

  async "a program runs on a device"() {
    await page.goto(base);
    await page.getByRole("link", { name: "Run" }).click();
    await page.waitForSelector("#run");
    must(await page.locator("section.pane").count() === 1 && await page.locator("textarea").count() === 2, "the Run door shows more than one program");
    await page.getByRole("button", { name: "Run on the device" }).click();
    await page.waitForFunction(() => document.querySelector("#run-out").textContent.startsWith("on interp"));
  },

  async "no side scroll at 320 pixels"() {
    await page.setViewportSize({ width: 320, height: 700 });
    for (const at of ["", "?v=1&p=see", "?v=1&p=program", "?v=1#run", "nb/01"]) {
      await page.goto(base + at);
      await page.waitForSelector("section");
      await page.waitForTimeout(200);
      const w = await page.evaluate(() => document.documentElement.scrollWidth);
      must(w <= 320, at + " is " + w + " pixels wide");
    }
    if (shots) { await page.goto(base); await settled(); await page.screenshot({ path: shots + "/small.png" }); }
    await page.setViewportSize({ width: 1280, height: 900 });
  },

  async "axe finds nothing, in light and dark"() {
    for (const scheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: scheme });
      for (const at of ["", "?v=1&p=see", "?v=1&p=program", "?v=1#run", "?v=1&p=layout&e=local(2", "nb/", "nb/01"]) {
        await page.goto(base + at);
        await page.waitForSelector("section, ul.shelf");
        await page.waitForTimeout(200);
        await scan(scheme + " " + at);
        if (shots) await page.screenshot({ path: shots + "/" + scheme + "-" + (at.replace(/[^a-z0-9]+/gi, "_") || "start") + ".png", fullPage: true });
      }
    }
    await page.emulateMedia({ colorScheme: "light" });
  },

  async "a lesson opens, nothing in it executes, and it saves"() {
    await page.goto(base + "nb/01");
    await page.waitForSelector(".cell");
    must(await page.evaluate(() => window.executed === undefined), "a script of the notebook ran");
    must(await page.locator(".out img[src^='data:image/svg+xml']").count() === 1, "the picture is not an image");
    await editors();
    must(await page.locator(".cell").getByRole("textbox").count() === 1, "the source of a text cell is shown");
    must(await page.locator(".prose script, .out script, .out svg").count() === 0, "markup of the notebook reached the page");
    await page.getByRole("textbox", { name: "Code of the cell" }).fill("x := 41 + 1");
    await page.getByRole("button", { name: "Save" }).click();
    await page.waitForFunction(() => document.querySelector(".state").textContent === "saved");
    await page.reload();
    await page.waitForSelector(".cell");
    must(await page.locator(".cell.code textarea").first().inputValue() === "x := 41 + 1", "the change was not saved");
  },

  async "nothing was loaded from elsewhere and nothing complained"() {
    must(foreign.length === 0, "requests to " + foreign.join(", "));
    must(complaints.length === 0, complaints.join("\n"));
    must(blocked.length > 0, "nobody stopped the script of the notebook");
  },
};

let failed = 0;
for (const [name, check] of Object.entries(checks)) {
  try {
    await check();
    console.log("ok   " + name);
  } catch (e) {
    failed++;
    console.log("FAIL " + name + ": " + e.message);
    if (shots) await page.screenshot({ path: shots + "/failed-" + failed + ".png" }).catch(() => {});
  }
}
await browser.close();
process.exit(failed ? 1 : 0);
