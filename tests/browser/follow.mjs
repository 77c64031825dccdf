// One element followed through programs: chosen in a picture, shown as a strip, linked
// with lines, values and code, and kept in the address.
//
//   node follow.mjs ADDRESS PROGRAM
//
// PROGRAM is a file with a program that copies tiles to shared memory and multiplies them.

import { readFileSync } from "node:fs";
import { open, must, run, shot, scan, drawn } from "./lib.mjs";

const [start, file] = process.argv.slice(2);
const base = new URL(start).origin + "/";
const program = readFileSync(file, "utf8");
const { browser, page } = await open();
const complaints = [];
page.on("console", (m) => { if (m.type() === "error") complaints.push(m.text()); });
page.on("pageerror", (e) => complaints.push(String(e)));

const figure = (name, pane = 0) => page.locator("section.pane").nth(pane).locator(`figure[data-name="${name}"]`);
const strip = (pane = 0) => figure("way", pane);
const label = (pane = 0) => strip(pane).locator(".canvas").getAttribute("aria-label");
const lit = (name, pane = 0) => figure(name, pane).locator(".overlay .hit").evaluate((e) => (e.getAttribute("d") ?? "").split("M").length - 1);
const settled = () => page.waitForFunction(() => [...document.querySelectorAll("section.pane")].every((p) => p.querySelector(".say")?.textContent !== ""));
// Cells of a strip are 210 wide and 236 apart, from 14.
const station = (n, pane = 0) => strip(pane).locator(".stage").hover({ position: { x: 14 + 236 * n + 100, y: 150 } });
const away = async () => {
  await page.mouse.move(3, 3);
  await page.waitForFunction(() => ![...document.querySelectorAll(".overlay .here")].some((e) => e.getAttribute("d")));
};

await run(browser, () => [page], {
  async "a program has its code beside it, linked both ways"() {
    await page.goto(start);
    await drawn(page);
    await page.goto(base + "?v=1&p=program");
    await figure("PTX").waitFor();
    await page.waitForFunction(() => document.body.dataset.editors === "ready" && document.querySelector(".cm-editor"));
    const editor = await page.locator(".cm-editor").first().boundingBox(), code = await figure("PTX").boundingBox();
    must(code.x > editor.x + editor.width - 1 && code.y < editor.y + editor.height, "the code does not stand beside the text");
    // From the text to the code: the caret in the line of the load.
    await page.getByRole("textbox", { name: "Program" }).click();
    await page.keyboard.press("Control+Home");
    for (let i = 0; i < 4; i++) await page.keyboard.press("ArrowDown");
    await page.waitForFunction(() => (document.querySelector("figure[data-name=PTX] .overlay .hit").getAttribute("d") ?? "").split("M").length > 5);
    // From the code to the text: its last line but one is the return, line 53 a store of line 7.
    await figure("PTX").locator(".stage").hover({ position: { x: 100, y: 14 + 17 * 52 + 8 } });
    await page.waitForFunction(() => document.querySelector(".cm-lit")?.textContent.includes("StoreGlobal"));
    await away();
  },

  async "a table says which matrix instruction a Dot takes, linked with what it becomes"() {
    await page.goto(base + "?v=1&p=program&src=" + encodeURIComponent(program));
    await figure("products").waitFor();
    const said = await page.locator(".say").first().textContent();
    must(/The Dot of line \d+ is computed by mma\.m16n8k\d+\.\S+, \d+ in each warp; /.test(said), said);
    await figure("products").locator(".stage").hover({ position: { x: 100, y: 60 } });
    await page.waitForFunction(() => document.querySelector("figure[data-name=PTX] .overlay .hit").getAttribute("d"));
    await away();
  },

  async "choosing a cell follows that element"() {
    await page.goto(base + "?v=1&p=program");
    await figure("x : f32; y : f16").waitFor();
    await figure("x : f32; y : f16").locator(".stage").hover({ position: { x: 124, y: 140 } });
    const said = await page.locator(".say").first().textContent();
    const [, row, col] = said.match(/\((\d+), (\d+)\) is held/);
    await figure("x : f32; y : f16").locator(".stage").click({ position: { x: 124, y: 140 } });
    await strip().waitFor();
    must((await label()).includes(`global memory a[${row}, ${col}], then register x[${row}, ${col}], then register y[${row}, ${col}], then global memory c[${row}, ${col}]`), "the strip says " + await label());
    must(new URL(page.url()).searchParams.get("el") === `x[${row}, ${col}]`, "the address is " + page.url());
    const text = await page.evaluate(() => document.querySelector("#strip:not([hidden])")?.textContent ?? "");
    must(text.includes("Following one element"), "the element is not pinned");
    // A station lights its line's code and its cell.
    await page.waitForFunction(() => document.body.dataset.editors === "ready" && document.querySelector(".cm-editor"));
    await away();
    await station(2);
    await page.waitForFunction(() => document.querySelector("section.pane figure[data-name=PTX] .overlay .hit").getAttribute("d"));
    must(await lit("x : f32; y : f16") === 1, "the station of y lights " + await lit("x : f32; y : f16") + " cells");
    must(await page.locator(".cm-lit").first().textContent().then((s) => s.includes("Cast")), "the line of the station is not lit");
    await shot(page, "follow-program", { fullPage: true });
    // Reloading shows the same; Escape lets go.
    const svg = await strip().locator(".stage > svg").first().evaluate((e) => e.outerHTML);
    await page.reload();
    await strip().waitFor();
    must(await strip().locator(".stage > svg").first().evaluate((e) => e.outerHTML) === svg, "reloading gives another strip");
    await page.evaluate(() => document.activeElement?.blur());
    await page.keyboard.press("Escape");
    await strip().waitFor({ state: "detached" });
    must(!new URL(page.url()).searchParams.get("el"), "Escape leaves the element in the address");
  },

  async "through shared memory and the matrix unit"() {
    await page.goto(base + "?v=1&p=program&el=" + encodeURIComponent("ra[9, 2]") + "&src=" + encodeURIComponent(program));
    await strip().waitFor();
    const said = await label();
    for (const part of ["global memory a[9, 2]", "shared memory sa[9, 2]", "register ra[9, 2]", "operand ra[9, 2]", "sum acc[9, 0]", "register out[9, 0]", "global memory c[9, 0]"]) must(said.includes(part), "no " + part + " in " + said);
    await station(3);
    await page.waitForFunction(() => /operand a of mma\.m16n8k16\.f32\.f16.*lane 5, register 1 bits 0–15/i.test(document.querySelector(".say").textContent));
    await scan(page, "a strip");
    await shot(page, "follow-shared", { fullPage: true });
    await page.emulateMedia({ colorScheme: "dark" });
    await page.waitForFunction(() => document.querySelector("figure[data-name=way] .stage > svg").outerHTML.includes("#0d1117"));
    await shot(page, "follow-shared-dark", { fullPage: true });
    await page.emulateMedia({ colorScheme: "light" });
    await page.goto(base + "?v=1&p=program&el=rra[9,2]&src=" + encodeURIComponent(program));
    await page.locator(".errors").first().waitFor({ state: "visible" });
    must((await page.locator(".errors").first().textContent()).includes("did you mean ra?"), "a tensor that is not there is not told");
  },

  async "stations lead to their moment in the debugger"() {
    await page.goto(base + "?v=1&p=debug&n=5");
    await figure("y").waitFor();
    await figure("y").locator(".stage").click({ position: { x: 150, y: 200 } });
    await strip().waitFor();
    const el = new URL(page.url()).searchParams.get("el");
    must(/^y\[\d+, \d+\] @ 5$/.test(el), "it follows " + el);
    await strip().locator(".stage").click({ position: { x: 14 + 236 + 100, y: 150 } });
    await page.waitForFunction(() => /[?&]n=4(&|$)/.test(location.search) && location.search.includes("x=x"));
    await figure("x").waitFor();
    must(new URL(page.url()).searchParams.get("el") === el, "another element is followed");
    await station(1);
    await page.waitForFunction(() => document.querySelector("figure[data-name=x] .overlay .hit").getAttribute("d"));
    must(await lit("x") === 1 && await lit("program") >= 1, "the station lights no value or no line");
    await away();
    // Two panes of one program: a station in one lights the other.
    await page.goto(base + "?v=1&p=debug&n=5&el=" + encodeURIComponent(el) + "&p=program&p=code");
    await page.waitForFunction(() => document.querySelectorAll("section.pane")[2]?.querySelectorAll(".stage > svg:first-child").length === 2);
    await figure("x : f32; y : f16", 1).waitFor();
    await strip().waitFor();
    await settled();
    await station(2);
    await page.waitForFunction(() => [...document.querySelectorAll("section.pane")].every((p) => [...p.querySelectorAll(".overlay .hit")].some((e) => e.getAttribute("d"))));
    must(await lit("x : f32; y : f16", 1) === 1, "the cell in the other pane is not lit");
    await away();
  },

  async "the debugger says what there is"() {
    await page.goto(base + "?v=1&p=debug");
    await figure("program").waitFor();
    const field = page.getByLabel("Variable", { exact: true }).first();
    await field.fill("xx");
    await page.locator(".errors").first().waitFor({ state: "visible" });
    const text = await page.locator(".errors").first().textContent();
    must(/column 1/.test(text) && text.includes("did you mean x? there are x, y"), "said: " + text);
    must(await page.locator(".mark u").first().textContent() === "xx", "the name is not marked");
    await field.fill("x");
    await page.locator(".errors").first().waitFor({ state: "hidden" });
    must(complaints.length === 0, complaints.join("\n"));
  },
});
