// What a person can rely on: the fifteen statements of the explorer, each in light and dark.
//
//   node ux.mjs ADDRESS PICTURES
//
// PICTURES is a folder in which the command line drew what the script asks the page
// for: NAME.svg with its address in NAME.link. Each statement prints a line
// "ok NUMBER NAME (THEME)"; the Go test makes a test of each.

import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { open, must, shot, scan, layout, pictures, drawn, redrawn, spot, trust } from "./lib.mjs";

const [start, drawnByCommand] = process.argv.slice(2);
const base = new URL(start).origin + "/";
const { browser, context, page } = await open();
const foreign = [], complaints = [];
page.on("request", (r) => { if (new URL(r.url()).host !== new URL(base).host && !r.url().startsWith("data:")) foreign.push(r.url()); });
page.on("console", (m) => { if (m.type() === "error") complaints.push(m.text()); });
page.on("pageerror", (e) => complaints.push(String(e)));

// ready waits until the pictures of an address are shown.
const go = async (query) => {
  await page.goto(base + query);
  await page.waitForFunction(() => {
    const panes = [...document.querySelectorAll("section.pane")];
    return panes.length > 0 && panes.every((p) => p.querySelector(".say")?.textContent !== "");
  });
};
const field = (name) => layout(page).getByLabel(name, { exact: true }).first();
const said = () => page.locator("section.pane .say").first().textContent();
const spoken = () => page.locator("#live").textContent();
const lit = (kind) => page.evaluate((kind) => [...document.querySelectorAll("section.pane")].map((p) => [...p.querySelectorAll(".overlay ." + kind)].filter((e) => e.getAttribute("d")).length), kind);
const cell = (n = 0) => page.locator("section.pane").nth(n).locator(".stage").first();

// mistakes are malformed inputs: pane, field, text.
const mistakes = [
  ...["", " ", "locl(2, 1)", "local(2,1).spatal(8,4)", "local(2, 1).spatial(8,", "local(2,1", "local(0)", "local(-1)", "local(2.5)", "local(x)", "local(2,1)(3)", "local(2,1).", ".local(2)", "local", "local(,)", "local(2) spatial(8)",
    "spatial(8,4)]", "local(99999999)", "local(1000000000000000000000)", "7:", "(4,8):(1", "(4,8):(1,2,3)", "((4,8),(2,2)):((32,1),(16,8)) on 3x5", "Sw<3,4>", "Sw<99,4,3>", "#ttg.blocked<{sizePerThread = [1]}>", "mma.m16n8k61.f32.f16",
    "<b>x</b>", "ä.local(2)", "local(2)/spatial(3)", "local(2)*", "reduce(local(2))", "(".repeat(200), "local(2,1).spatial(8,4).local(1,2)]", "spatial(8,4).column_locl(2,2)", "\"local(2)\"", "local(2,1).spatial(8,4) on", "permute(local(2,1), [0, 0])"].map((x) => ["layout", "e", x]),
  ...["load 3: lane", "load 4: lane*", "load 4: lane/0", "lode 4: lane", "ldmatrix.x4: lane*3", "load 4: 0, 4, x"].map((x) => ["banks", "a", x]),
  ...["(d0) ->", "(d0) -> (d1)", "(d0) -> (d0 mod)", "domain"].map((x) => ["indexmap", "m", x]),
];

const statements = {
  async "never blank"() {
    for (const query of ["", "?v=1&p=nosuch", "?v=1&p=layout&e=local(2", "?garbage", "?v=1&p=program&src=nonsense"]) {
      await go(query);
      await drawn(page);
      const seen = await page.evaluate(() => ({ pictures: document.querySelectorAll(".stage > svg:first-child").length, said: document.querySelector(".say").textContent }));
      must(seen.pictures >= 1 && /\d/.test(seen.said) && seen.said.length > 20, query + " shows " + JSON.stringify(seen));
    }
    await go("");
    must((await said()).startsWith("Thread 5 slot 2 holds (9, 2)"), "the first sentence is " + await said());
    must(foreign.length === 0, "requests to " + foreign.join(", "));
  },

  async "answers while typing"() {
    await go("?v=1&p=layout");
    must(await page.getByRole("button", { name: /^(run|render|draw|go)\b/i }).count() === 0, "there is a button to draw");
    const before = await pictures(page);
    await field("Layout").click();
    await page.keyboard.press("Control+A");
    await page.keyboard.type("spatial(4, 8).local(2, 2)");
    await redrawn(page, "[8, 16]");
    const after = await pictures(page);
    must(after.length === 2 && after[0] !== before[0] && after[1] !== before[1], "not both pictures changed");
    const slider = page.getByRole("slider", { name: "Bits per value" });
    await go("?v=1&p=reinterpret");
    const seen = new Set();
    for (let w = 1; w <= 8; w++) {
      await slider.fill(String(w));
      await page.waitForFunction((w) => document.querySelector(".say").textContent.includes("read as i" + w), w);
      seen.add((await pictures(page))[0]);
    }
    must(seen.size === 8, "8 widths give " + seen.size + " pictures");
  },

  async "errors keep the last good picture and mark the range"() {
    must(mistakes.length >= 40, "there are only " + mistakes.length + " malformed inputs");
    let pane = "";
    for (const [name, param, text] of mistakes) {
      if (name !== pane) {
        pane = name;
        await go("?v=1&p=" + name);
        await drawn(page);
      }
      const box = page.locator("section.pane [id$='-" + param + "']").first();
      const was = await box.inputValue();
      await page.evaluate(() => { window.kept = document.querySelector(".stage > svg"); window.text = window.kept.outerHTML; });
      await box.fill(text);
      await layout(page).locator(".errors").waitFor({ state: "visible" }).catch(() => must(false, JSON.stringify(text) + " is taken for right"));
      await page.waitForFunction((id) => document.querySelector("section.pane [id$='-" + id + "']").getAttribute("aria-invalid") === "true", param);
      const now = await page.evaluate(() => ({
        same: window.kept.isConnected && document.querySelector(".stage > svg") === window.kept && window.kept.outerHTML === window.text,
        where: document.querySelector(".errors .where")?.textContent ?? "", message: document.querySelector(".errors").textContent, marked: document.querySelectorAll(".mark u").length,
      }));
      must(now.same, "the picture changed on " + JSON.stringify(text));
      must(/column \d+/.test(now.where), JSON.stringify(text) + " is said to be wrong nowhere: " + now.message);
      must(now.marked > 0, "no range is marked in " + JSON.stringify(text));
      await box.fill(was);
      await page.waitForFunction(() => !window.kept.isConnected); // the good text is drawn again
      await layout(page).locator(".errors").waitFor({ state: "hidden" });
    }
    await go("?v=1&p=layout");
    await field("Layout").fill("spatial(4, 8).locl(2, 2)");
    await page.waitForFunction(() => document.querySelector(".mark u")?.textContent === "locl");
    must((await layout(page).locator(".errors").textContent()).includes("local"), "no word is offered for locl");
    await shot(page, "ux-error-" + theme);
  },

  async "linked everywhere"() {
    await go("?v=1&p=layout&p=layout&e=spatial(8,+4).local(2,+2)&p=reinterpret&p=code&p=banks");
    await page.waitForFunction(() => document.querySelectorAll(".stage > svg:first-child").length >= 9);
    await cell().hover(await spot(cell(), 0, 2));
    await page.waitForFunction(() => [...document.querySelectorAll("section.pane")].slice(0, 3).every((p) => p.querySelector(".overlay .kin").getAttribute("d")));
    // Its lane in the banks, and the factors of its layout.
    must((await lit("kin"))[4] === 2, "the lane is not lit in the banks: " + await lit("kin"));
    await page.waitForFunction(() => /spatial\(8, 4\) \S/.test(document.querySelector("section.pane .terms")?.title ?? ""));
    const hits = await lit("hit");
    must(hits[0] === 2 && hits[1] >= 1, "elements lit: " + hits);
    await shot(page, "ux-linked-" + theme, { fullPage: true });
    await page.mouse.move(3, 3);
    await page.waitForFunction(() => ![...document.querySelectorAll(".overlay path")].some((e) => e.getAttribute("d")));
    // A click pins; with Shift it adds; Escape lets go.
    await cell().click(await spot(cell(), 0, 2));
    await page.mouse.move(3, 3);
    const boxes = () => page.evaluate(() => (document.querySelector("section.pane .overlay .hit").getAttribute("d") ?? "").split("M").length - 1);
    must(await boxes() === 1, "a click pins " + await boxes() + " elements");
    await cell().click({ ...await spot(cell(), 1, 2), modifiers: ["Shift"] });
    await page.mouse.move(3, 3);
    must(await boxes() === 2, "with Shift " + await boxes() + " elements are pinned");
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => ![...document.querySelectorAll(".overlay path")].some((e) => e.getAttribute("d")));
    // Focus does what pointing does, and says it.
    await layout(page).locator(".canvas").nth(1).focus();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowDown");
    await page.waitForFunction(() => /cells? lit$/.test(document.querySelector("#live").textContent));
    must((await spoken()).startsWith("thread 1 slot 1 holds (0, 3)"), "said " + await spoken());
    // A line of a program and what it became.
    await page.locator("section.pane").nth(3).locator(".stage").first().hover({ position: { x: 100, y: 12 + 17 * 5 } });
    await page.waitForFunction(() => document.querySelectorAll("section.pane")[3].querySelectorAll(".overlay .hit")[1].getAttribute("d").length > 10);
  },

  async "the URL is the state"() {
    for (const query of ["?v=1&p=layout&e=local(2).column_spatial(4,8)&pal=okabe-ito&newer=1", "?v=1&p=banks&b=2&p=debug&n=7", "?v=1&p=volta&n=3&v=multipliers"]) {
      await go(query);
      await drawn(page);
      const one = await page.locator(".stage > svg:first-child").evaluateAll((all) => all.map((e) => e.outerHTML));
      await page.reload();
      await page.waitForFunction((n) => document.querySelectorAll(".stage > svg:first-child").length === n, one.length);
      const two = await page.locator(".stage > svg:first-child").evaluateAll((all) => all.map((e) => e.outerHTML));
      must(JSON.stringify(one) === JSON.stringify(two), query + ": reloading gives other pictures");
    }
    await go("?v=1&p=layout&e=spatial(4,8)");
    const was = await pictures(page);
    await field("Layout").fill("spatial(8,4)");
    await field("Layout").blur();
    await page.waitForFunction(() => location.search.includes("spatial(8,4)"));
    must(page.url().length < 500, "the address has " + page.url().length + " characters");
    await redrawn(page, "[8, 4]");
    await page.goBack();
    await redrawn(page, "[4, 8]");
    must(JSON.stringify(await pictures(page)) === JSON.stringify(was), "back does not undo");
    await page.goForward();
    await redrawn(page, "[8, 4]");
    await page.goto(base + "?v=1&p=layout&e=spatial(2,2)&embed=1");
    await drawn(page);
    must(await page.locator("header.top").isHidden() && await page.locator(".fields").first().isHidden(), "an embedded picture is not alone");
  },

  async "take it away"() {
    // The command line drew the same addresses: equal bytes, and the page shows them.
    for (const file of readdirSync(drawnByCommand).filter((f) => f.endsWith(".svg"))) {
      const want = readFileSync(path.join(drawnByCommand, file), "utf8");
      const query = readFileSync(path.join(drawnByCommand, file.replace(".svg", ".link")), "utf8").trim();
      const got = await page.evaluate(async (url) => (await fetch(url)).text(), base + "svg" + query);
      must(got === want, file + " of the command line differs from the page's");
      await go(query);
      await drawn(page);
      // What stands in the page is that text, parsed.
      const equal = await page.evaluate((want) => {
        const t = document.createElement("template");
        t.innerHTML = want;
        const svg = t.content.querySelector("svg");
        svg.querySelector("title").remove();
        if (document.querySelector(".stage canvas")) return true; // the texts of a large picture stand on a canvas
        const here = document.querySelector(".stage > svg").cloneNode(true);
        here.removeAttribute("aria-hidden");
        return here.outerHTML === svg.outerHTML;
      }, want);
      must(equal, "the page does not show what is in " + file);
    }
    await go("?v=1&p=layout" + (theme === "dark" ? "&th=dark" : ""));
    await drawn(page);
    for (const form of ["PNG", "PDF", "TIKZ", "JSON", "CSV", "MD", "TXT"]) {
      const [file] = await Promise.all([page.waitForEvent("download"), layout(page).getByRole("link", { name: form, exact: true }).first().click()]);
      must(file.suggestedFilename() === "layout." + form.toLowerCase(), form + " is " + file.suggestedFilename());
    }
    // In words: what a pane shows in every way of writing it, or why there is none.
    for (const [query, wanted] of [
      ["?v=1&p=layout", [["Go", "layout.Local(2, 1).Spatial(8, 4).Local(1, 2)"], ["Program text", "x = AllocateRegister() : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)"], ["CuTe", "((4,8),(2,2)):((32,1),(16,8)) on 16x8"], ["Linear layout", "lane=1"]]],
      ["?v=1&p=program", [["Go", "lab.Parse("], ["Program text", "program cast<"]]],
      ["?v=1&p=banks", [["CuTe", "Swizzle<3,4,3>"]]],
    ]) {
      await go(query);
      await drawn(page);
      await page.getByRole("button", { name: /^Copy as: / }).first().evaluate((b) => b.click());
      const box = page.getByRole("dialog", { name: /^Copy .* as$/ });
      await box.waitFor();
      for (const [title, text] of wanted) {
        const item = box.locator("li").filter({ has: page.getByText(title, { exact: true }) });
        must((await item.locator("pre").textContent()).includes(text), query + " as " + title + ": " + await item.textContent());
        must(await item.getByRole("button", { name: "Copy as " + title, exact: true }).count() === 1, "no button copies " + title);
      }
      await page.keyboard.press("Escape");
      await box.waitFor({ state: "hidden" });
    }
    // A cell of a notebook makes the same bytes.
    if (theme === "light") {
      await page.goto(base + "nb/same");
      await page.getByRole("button", { name: "Run all" }).click();
      await trust(page);
      await page.waitForFunction(() => document.querySelector(".out img")?.complete);
      const [notebook, here] = await page.evaluate(async (url) => [new TextDecoder().decode(Uint8Array.from(atob(document.querySelector(".out img").src.split("base64,")[1]), (c) => c.charCodeAt(0))), await (await fetch(url)).text()], base + "svg?v=1&p=layout");
      must(notebook === here, "the notebook's picture differs from the page's");
    }
  },

  async "keys"() {
    await go("");
    await drawn(page);
    // Tab goes in the order of reading.
    await page.evaluate(() => document.activeElement?.blur());
    const order = [];
    for (let i = 0; i < 40; i++) {
      await page.keyboard.press("Tab");
      const at = await page.evaluate(() => {
        const e = document.activeElement;
        if (!e || e === document.body) return null;
        const box = e.getBoundingClientRect();
        return { y: box.top + scrollY, x: box.left, id: e.id, pane: [...document.querySelectorAll("section.pane")].indexOf(e.closest("section.pane")) };
      });
      if (!at) break;
      order.push(at);
    }
    const panes = order.map((o) => o.pane).filter((n) => n >= 0);
    must(panes.length > 8 && panes.every((n, i) => i === 0 || n >= panes[i - 1]), "Tab goes through the panes as " + panes);
    // Arrows, Home, End and pages walk the cells.
    await layout(page).locator(".canvas").first().focus();
    const walk = [];
    for (const key of ["End", "Home", "ArrowDown", "ArrowRight", "PageDown", "PageUp"]) {
      await page.keyboard.press(key);
      walk.push(await spoken());
    }
    must(new Set(walk).size >= 5 && walk.every((s) => s.includes("thread")), "walking says " + walk.join(" | "));
    await page.keyboard.press("+");
    await page.waitForFunction(() => document.querySelector("#live").textContent === "size 125 %");
    await page.keyboard.press("0");
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    await page.keyboard.press("Escape");
    // The palette finds anything that has a name.
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Find" }).waitFor();
    await page.keyboard.type("m16n8k16 f32 f16");
    await page.waitForFunction(() => document.querySelector("#palette-list [aria-selected=true]")?.textContent.includes("mma.m16n8k16.f32.f16"));
    await page.keyboard.press("Enter");
    await redrawn(page, "mma.m16n8k16.f32.f16");
    await go("?v=1&p=volta&n=3");
    await layout(page).locator(".canvas").first().focus();
    await page.keyboard.press(".");
    await page.waitForFunction(() => /[?&]n=4(&|$)/.test(location.search));
    await page.keyboard.press(",");
    await page.keyboard.press("]");
    await page.waitForFunction(() => location.search.includes("memory+to+sums"));
    await page.keyboard.press("[");
    // A lesson, by keys alone: open it, run its cells, save it.
    await page.goto(base);
    await drawn(page);
    await page.evaluate(() => document.activeElement?.blur());
    for (let i = 0; i < 12; i++) {
      await page.keyboard.press("Tab");
      if (await page.evaluate(() => document.activeElement?.textContent.startsWith("Learn"))) break;
    }
    await page.keyboard.press("Enter");
    await page.waitForURL(/nb\/01/);
    await page.locator(".cell.code").first().waitFor();
    await page.waitForFunction(() => document.body.dataset.editors !== "coming");
    const inCell = () => page.evaluate(() => document.activeElement?.closest(".cell.code") !== null && document.activeElement.matches("textarea, [contenteditable=true]"));
    for (let i = 0; i < 60 && !(await inCell()); i++) await page.keyboard.press("Tab");
    must(await inCell(), "Tab reaches no cell");
    await page.keyboard.press("Shift+Enter");
    await page.waitForFunction(() => /^\[\d+\]$/.test(document.querySelector(".cell.code .head span").textContent));
    must(await page.locator(".cell.code").first().locator(".out pre.error").count() === 0, "the cell failed");
    await page.keyboard.press("Control+s");
    await page.waitForFunction(() => document.querySelector(".state")?.textContent === "saved");
  },

  async "colour is never alone"() {
    await go("");
    await drawn(page);
    await page.waitForFunction(() => document.querySelector("#devices").textContent.includes("interp"));
    await shot(page, "ux-start-" + theme, { fullPage: true });
    await scan(page, "the start in " + theme);
    await page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce", forcedColors: "active" });
    await go("?v=1&p=layout&pal=grey");
    await scan(page, "forced colours in " + theme);
    const texts = await page.evaluate(() => document.querySelector(".stage > svg").querySelectorAll("tspan, text").length);
    must(texts > 100, "cells have no text: " + texts);
    await page.emulateMedia({ colorScheme: theme, reducedMotion: "no-preference", forcedColors: "none" });
    // The contrast of the letters of every palette is held by layoutviz's own tests.
    await go("?v=1&p=layout");
    for (const pal of ["soft", "cute", "okabe-ito", "grey", "contrast"]) {
      await field("Colours").selectOption(pal);
      await page.waitForFunction((pal) => pal === "soft" || location.search.includes("pal=" + pal), pal);
    }
  },

  async "a twin for screen readers"() {
    await go("");
    await drawn(page);
    const canvases = await page.locator(".canvas").evaluateAll((all) => all.map((c) => [c.getAttribute("role"), c.getAttribute("aria-label")]));
    must(canvases.every(([role, label]) => role && label.length > 40), "pictures are described as " + canvases);
    await page.locator(".twin summary").first().click();
    const table = page.locator(".twin table").first();
    await table.waitFor();
    must(await table.locator("th[scope=col]").count() === 9 && await table.locator("th[scope=row]").count() === 16, "the table has no headers for rows and columns");
    must(await table.locator("tbody tr").nth(9).locator("td").nth(2).textContent() === "thread 5, slot 2", "the table says another owner of (9, 2)");
    await scan(page, "a table in " + theme);
    const svg = await page.evaluate(async (url) => (await fetch(url)).text(), base + "svg?v=1&p=layout");
    must(/<title>[^<]{10,}<\/title>/.test(svg) && /<desc>[^<]{40,}<\/desc>/.test(svg), "the SVG has no title or description");
  },

  async "time is a document too"() {
    for (const [name, key] of [["volta", "n"], ["debug", "n"], ["passes", "n"], ["dispatch", null], ["blocks", "t"]]) {
      await go("?v=1&p=" + name);
      must(await layout(page).getByRole("button", { name: /^Play/ }).count() > 0, name + " cannot be played");
      if (!key) continue;
      await go("?v=1&p=" + name + "&" + key + "=2");
      const two = await pictures(page);
      const slider = layout(page).locator("input[type=range]").first();
      await slider.focus();
      await page.keyboard.press("ArrowRight");
      await page.waitForFunction((key) => new RegExp("[?&]" + key + "=3(&|$)").test(location.search), key);
      await page.keyboard.press("ArrowLeft");
      await page.waitForFunction((key) => new RegExp("[?&]" + key + "=2(&|$)").test(location.search), key);
      await page.waitForFunction((want) => document.querySelector("section.pane .stage > svg")?.outerHTML === want, two[0]);
    }
    await go("?v=1&p=volta&n=0");
    await page.getByRole("button", { name: "Play Instructions done" }).click();
    await page.waitForFunction(() => Number(document.querySelector("section.pane output").textContent) >= 2);
    await page.getByRole("button", { name: "Pause Instructions done" }).click();
    await page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
    await go("?v=1&p=volta&n=0");
    await page.getByRole("button", { name: "Play Instructions done" }).click();
    await page.waitForFunction(() => document.querySelector("figcaption").textContent.includes("all steps"));
    await page.emulateMedia({ colorScheme: theme, reducedMotion: "no-preference" });
  },

  async "compare"() {
    await go("?v=1&p=layout&s=difference&e=spatial(8,+4)&f=column_spatial(8,+4)");
    await redrawn(page, "30 of 32 elements have another owner");
    await shot(page, "ux-difference-" + theme);
    // Two panes follow one pointer.
    await go("?v=1&p=layout&_half=1&p=layout&_half=1&e=local(2,+1).spatial(8,+4).local(1,+2)");
    await page.waitForFunction(() => document.querySelectorAll(".stage > svg:first-child").length === 4);
    await cell().hover(await spot(cell(), 0, 2));
    await page.waitForFunction(() => [...document.querySelectorAll("section.pane")].every((p) => p.querySelector(".overlay .hit").getAttribute("d")));
    await page.mouse.move(3, 3);
  },

  async "explain in place"() {
    await go("?v=1&p=layout&p=banks&p=catalogue&i=mma.m16n8k16.f32.f16");
    const without = await page.locator("section.pane .field label").evaluateAll((all) => all.filter((l) => !l.title).map((l) => l.textContent));
    must(without.length === 0, "fields without a note: " + without);
    await cell().hover(await spot(cell(), 0, 2));
    await page.waitForFunction(() => /held by thread \d+ in slot \d+/.test(document.querySelector(".say").textContent));
    await page.mouse.move(3, 3);
    // An entry of the catalogue says its source and the case that checks it; each cell its formula with its own numbers.
    const entry = page.locator("section.pane").nth(2);
    const says = await entry.locator("pre").textContent();
    must(says.includes("source") && /checked +cute\.json /.test(says), "an entry of the catalogue says no source or no case");
    const atom = entry.locator("figure").last();
    await atom.locator(".stage").hover({ position: { x: 300, y: 720 } });
    await page.waitForFunction(() => /^A \((\d+), (\d+)\) is held by thread \d+ in slot \d+: row .*= \1, column .*= \2\.$/.test(document.querySelectorAll(".say")[2].textContent));
    await page.mouse.move(3, 3);
    // Each pane leads to its lesson.
    const lessons = await page.locator("section.pane .lesson").evaluateAll((all) => all.map((a) => a.getAttribute("href")));
    must(lessons.length === 3 && lessons.every((h) => /nb\/\d\d-/.test(h)), "lessons of the panes: " + lessons);
    // What a word of a layout means, by F1.
    await field("Layout").click();
    await page.keyboard.press("Home");
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("F1");
    await page.waitForFunction(() => document.querySelector(".manual:not([hidden])")?.textContent.length > 20);
    await page.keyboard.press("Escape");
  },

  async "kind at size"() {
    await go("?v=1&p=layout&e=local(64,+64).spatial(8,+4).local(4,+32)"); // more than a million elements
    await drawn(page);
    must(await layout(page).locator(".errors").isHidden(), "a million elements are refused");
    await go("?v=1&p=layout&e=local(4,4).spatial(8,4).local(2,4)");
    await page.waitForSelector(".stage canvas");
    const ink = () => layout(page).locator("canvas.texts").first().evaluate((c) => [...c.getContext("2d").getImageData(0, 0, c.width, c.height).data].filter((v, i) => i % 4 === 3 && v > 128).length);
    await page.waitForFunction(() => document.querySelector("canvas.texts").style.width); // drawn before a frame, once the canvas is there
    must(await ink() > 1000, "letters are missing: " + await ink());
    // To the far corner, by the map: letters are there too, and cells are linked.
    const map = layout(page).locator(".map").first();
    await map.scrollIntoViewIfNeeded();
    const box = await map.boundingBox();
    await map.click({ position: { x: box.width - 3, y: box.height - 3 } });
    const scrolled = () => layout(page).locator(".canvas").first().evaluate((c) => c.scrollLeft > 100 && c.scrollTop > 100);
    await page.waitForFunction(() => { const c = document.querySelector(".canvas"); return c.scrollTop > 100; });
    must(await scrolled(), "the map does not lead there");
    await page.waitForFunction(() => { const c = document.querySelector("canvas.texts"); return parseFloat(c.style.top) > 0; });
    must(await ink() > 1000, "letters are missing at the end: " + await ink());
    const at = await layout(page).locator(".canvas").first().boundingBox();
    await page.mouse.move(at.x + 300, at.y + 300);
    await page.waitForFunction(() => document.querySelectorAll(".hit[d*=M]").length === 2);
    await shot(page, "ux-large-" + theme);
    await page.mouse.move(3, 3);
    await layout(page).locator(".canvas").first().focus();
    await page.keyboard.press("-");
    await page.waitForFunction(() => document.querySelector("#live").textContent === "size 80 %");
  },

  async "small screens"() {
    await page.setViewportSize({ width: 320, height: 640 });
    for (const query of ["", "?v=1&p=see", "?v=1&p=banks&v=paint+the+access", "?v=1&p=program", "nb/01"]) {
      await page.goto(base + query);
      await page.waitForSelector("section");
      if (!query.startsWith("nb")) await page.waitForFunction(() => document.querySelector(".say")?.textContent);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      must(wide <= 320, query + " is " + wide + " px wide");
      const small = await page.evaluate(() => [...document.querySelectorAll("button, select, input, textarea, summary")].filter((e) => e.getClientRects().length && !e.closest(".cm-editor")).map((e) => [e, e.getBoundingClientRect()]).filter(([, r]) => r.height < 24 || r.width < 24).map(([e]) => e.outerHTML.slice(0, 80)));
      must(small.length === 0, query + ": too small to be touched: " + small.join(" | "));
      const zooms = await page.evaluate(() => [...document.querySelectorAll("input[type=text], textarea, select")].filter((e) => e.getClientRects().length && parseFloat(getComputedStyle(e).fontSize) < 16).map((e) => e.outerHTML.slice(0, 80)));
      must(zooms.length === 0, query + ": a phone would zoom into " + zooms.join(" | "));
    }
    await go("");
    const tabs = page.getByRole("tablist", { name: "Panes" });
    await tabs.waitFor();
    await tabs.getByRole("tab").nth(1).click();
    await page.waitForFunction(() => document.querySelectorAll("section.pane")[0].classList.contains("behind"));
    await shot(page, "ux-small-" + theme);
    await page.setViewportSize({ width: 1360, height: 900 });
  },

  async "honest numbers"() {
    await go("?v=1&p=run");
    await redrawn(page, "nothing here was measured on a GPU");
    must((await said()).includes("on this computer and not on a GPU"), "the times say not where: " + await said());
    await shot(page, "ux-run-" + theme, { fullPage: true });
    await go("?v=1&p=bench");
    await redrawn(page, "Measured; tests/record/");
    await go("?v=1&p=banks");
    await redrawn(page, "wavefronts");
    must((await layout(page).locator(".canvas").first().getAttribute("aria-label")).length > 20 && await field("Memory of").count() === 1, "the count of conflicts does not say of which memory");
    await go("?v=1&p=volta");
    must(!/\bmeasured\b/i.test(await said()), "the model of Volta says that it measured: " + await said());
    must(complaints.length === 0, complaints.join("\n"));
  },
};

let theme, failed = 0;
if (process.env.TILUS_LAB_WAIT) context.setDefaultTimeout(+process.env.TILUS_LAB_WAIT);
await page.goto(start);
await drawn(page);
for (theme of ["light", "dark"]) {
  await page.emulateMedia({ colorScheme: theme });
  let number = 0;
  for (const [name, check] of Object.entries(statements)) {
    number++;
    if (process.env.TILUS_LAB_ONLY && !process.env.TILUS_LAB_ONLY.split(",").includes(String(number))) continue;
    const begin = Date.now();
    try {
      await check();
      console.log(`ok ${number} ${name} (${theme}) ${Date.now() - begin} ms`);
    } catch (e) {
      failed++;
      console.log(`FAIL ${number} ${name} (${theme}) ${e.message.replaceAll("\n", " ")}`);
      await shot(page, `failed-ux-${number}-${theme}`).catch(() => {});
      await page.setViewportSize({ width: 1360, height: 900 });
      await page.emulateMedia({ colorScheme: theme, reducedMotion: "no-preference", forcedColors: "none" });
    }
  }
}
await browser.close();
process.exit(failed ? 1 : 0);
