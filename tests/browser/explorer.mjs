// The explorer as `tilus-lab up` serves it.
//
//   node explorer.mjs ADDRESS

import { open, run, must, shot, scan, layout, pictures, drawn, redrawn } from "./lib.mjs";

const start = process.argv[2];
const base = new URL(start).origin + "/";
const { browser, context, page } = await open();
const field = () => layout(page).locator("input[type=text]").first();
const foreign = [], complaints = [];
page.on("request", (r) => { if (new URL(r.url()).host !== new URL(base).host && !r.url().startsWith("data:")) foreign.push(r.url()); });
page.on("console", (m) => { if (m.type() === "error") complaints.push(m.text()); });
page.on("pageerror", (e) => complaints.push(String(e)));

await run(browser, () => context.pages(), {
  async "the first screen has both pictures, a number and a sentence"() {
    must(start.includes("token="), "the address carries no token: " + start);
    await page.goto(start);
    await drawn(page);
    must(!page.url().includes("token"), "the address still holds the token: " + page.url());
    const [tensor, threads] = await pictures(page);
    must(tensor && threads && tensor !== threads, "there are not two pictures");
    const chain = await field().inputValue();
    must(chain.replaceAll(" ", "") === "local(2,1).spatial(8,4).local(1,2)", "the chain is " + chain);
    await redrawn(page, "Thread 5 slot 2 holds (9, 2)");
    for (const door of ["Learn", "See", "Run"]) await page.getByRole("navigation").getByRole("link", { name: door }).waitFor();
    await page.waitForFunction(() => document.querySelector("#devices").textContent.includes("interp"));
  },

  async "the token works once"() {
    const other = await browser.newContext();
    const stranger = await other.newPage();
    const answer = await stranger.goto(start);
    must(answer.status() === 403, "a second use of the token is answered with " + answer.status());
    await other.close();
  },

  async "typing another chain draws both pictures"() {
    const before = await pictures(page);
    await field().click();
    await page.keyboard.press("Control+A");
    await page.keyboard.type("spatial(4, 8).local(2, 2)");
    await redrawn(page, "[8, 16]");
    const after = await pictures(page);
    must(after.length === 2 && after[0] !== before[0] && after[1] !== before[1], "not both pictures changed");
  },

  async "an error marks its place and keeps the last good pictures"() {
    const before = await pictures(page);
    await field().fill("spatial(4, 8).locl(2, 2)");
    await page.waitForFunction(() => document.querySelector(".mark u")?.textContent === "locl");
    const said = await layout(page).locator(".errors").textContent();
    must(said.includes("column 15") && said.includes("local"), "the message is " + said);
    must(await field().getAttribute("aria-invalid") === "true", "the field is not marked");
    must(JSON.stringify(await pictures(page)) === JSON.stringify(before), "the pictures changed");
    await shot(page, "explorer-error", { fullPage: true });
    await field().fill("spatial(4, 8).local(2, 2)");
    await layout(page).locator(".errors").waitFor({ state: "hidden" });
  },

  async "the slider changes the reinterpretation"() {
    const pane = page.locator("section.pane").nth(1);
    const bits = () => pane.locator(".stage > svg:first-child").first().evaluate((e) => e.outerHTML);
    const seen = new Set();
    for (let w = 1; w <= 8; w++) {
      await pane.locator("input[type=range]").fill(String(w));
      await page.waitForFunction((w) => document.querySelectorAll("section.pane")[1].querySelector(".say").textContent.includes("read as i" + w), w);
      seen.add(await bits());
    }
    must(seen.size === 8, "8 widths give " + seen.size + " pictures");
  },

  async "reload shows the same"() {
    await page.goto(base + "?v=1&p=layout&e=local(2).column_spatial(4,8)&pal=okabe-ito");
    await drawn(page);
    const one = await pictures(page);
    await page.reload();
    await drawn(page);
    must(JSON.stringify(await pictures(page)) === JSON.stringify(one), "reloading gives other pictures");
  },

  async "the program of the Run door runs on a device"() {
    await page.goto(base);
    await page.getByRole("navigation").getByRole("link", { name: "Run" }).click();
    await page.locator("#run").waitFor();
    const shown = (await page.locator("textarea").evaluateAll((all) => all.map((e) => e.value))).filter((text) => text.startsWith("program "));
    must(shown.length === 1 && shown[0].includes(": register i6["), "the Run door shows " + shown);
    await redrawn(page, "matmul");
    await page.getByRole("button", { name: "Run on the device" }).click();
    await page.waitForFunction(() => /^on (interp|sim|cuda)/.test(document.querySelector("#run-out").textContent));
    await shot(page, "explorer-run", { fullPage: true });
  },

  async "the palette opens what has a name, by keys alone"() {
    await page.goto(base);
    await drawn(page);
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Find" }).waitFor();
    await page.locator("#palette-list li").nth(20).waitFor();
    await shot(page, "explorer-palette");
    await scan(page, "palette");
    await page.keyboard.type("m16n8k16 f32 f16");
    await page.waitForFunction(() => document.querySelector("#palette-list [aria-selected=true]")?.textContent.includes("mma.m16n8k16.f32.f16"));
    await page.keyboard.press("Enter");
    await redrawn(page, "mma.m16n8k16.f32.f16");
    must(page.url().includes("p=catalogue") && page.url().includes("i=mma.m16n8k16.f32.f16"), "the address is " + page.url());
    await page.keyboard.press("Control+k");
    await page.keyboard.type("axpy generated");
    await page.waitForFunction(() => document.querySelector("#palette-list [aria-selected=true]")?.textContent.includes("axpy"));
    await page.keyboard.press("Enter");
    await redrawn(page, "lines of PTX");
    const url = page.url(), was = await pictures(page);
    await page.reload();
    await redrawn(page, "lines of PTX");
    must(page.url() === url && JSON.stringify(await pictures(page)) === JSON.stringify(was), "reloading gives other pictures");
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    await page.keyboard.press("Escape");
  },

  async "a line lights the code that it became"() {
    const stage = layout(page).locator(".stage");
    await stage.first().hover({ position: { x: 100, y: 12 + 17 * 5 } });
    await page.waitForFunction(() => [...document.querySelectorAll("section.pane")][0].querySelectorAll(".overlay .hit")[1].getAttribute("d").length > 10);
    await redrawn(page, "became");
    await shot(page, "explorer-code");
  },

  async "pointing lights the same thread in all panes, and the same element in a pane of the same kind"() {
    await page.goto(base + "?v=1&p=layout&p=layout&e=spatial(8,+4).local(1,+2)&p=reinterpret");
    await page.waitForFunction(() => document.querySelectorAll(".stage > svg:first-child").length >= 5);
    const lit = (kind) => page.evaluate((kind) => [...document.querySelectorAll("section.pane")].map((p) => [...p.querySelectorAll(".overlay ." + kind)].filter((e) => e.getAttribute("d")).length), kind);
    await layout(page).locator(".stage").first().hover({ position: { x: 124, y: 63 } });
    await page.waitForFunction(() => [...document.querySelectorAll("section.pane")].every((p) => p.querySelector(".overlay .kin").getAttribute("d")));
    const hits = await lit("hit");
    must(hits[0] === 2 && hits[1] >= 1, "elements lit: " + hits);
    await shot(page, "explorer-linked", { fullPage: true });
    await page.mouse.move(5, 5);
    await page.waitForFunction(() => ![...document.querySelectorAll(".overlay path")].some((e) => e.getAttribute("d")));
    // A pin stays while another pane is looked at.
    await layout(page).locator(".stage").first().click({ position: { x: 124, y: 63 } });
    await page.locator("section.pane").nth(1).locator(".stage").first().hover({ position: { x: 90, y: 90 } });
    await page.mouse.move(5, 5);
    await page.waitForFunction(() => document.querySelector("section.pane .overlay .hit").getAttribute("d"));
  },

  async "panes are duplicated and closed, and back undoes it"() {
    await page.goto(base + "?v=1&p=banks");
    await redrawn(page, "32 wavefronts");
    await page.getByRole("button", { name: "Duplicate: Banks" }).click();
    await page.waitForFunction(() => document.querySelectorAll("section.pane").length === 2);
    await page.getByRole("button", { name: "Close: Banks" }).first().click();
    await page.waitForFunction(() => document.querySelectorAll("section.pane").length === 1);
    await page.goBack();
    await page.waitForFunction(() => document.querySelectorAll("section.pane").length === 2);
    await page.goBack();
    await page.waitForFunction(() => document.querySelectorAll("section.pane").length === 1);
  },

  async "the debugger goes forwards and back, and to a line"() {
    await page.goto(base + "?v=1&p=debug");
    await redrawn(page, "Step 5 of 24");
    const was = await pictures(page);
    const slider = layout(page).getByRole("slider", { name: "Step" });
    await slider.focus();
    await page.keyboard.press("ArrowLeft");
    await redrawn(page, "Step 4 of 24");
    await page.keyboard.press("ArrowRight");
    await redrawn(page, "Step 5 of 24");
    must(JSON.stringify(await pictures(page)) === JSON.stringify(was), "going back and forwards gives another picture");
    const line = await layout(page).locator(".stage").first().evaluate((e) => e.querySelector("svg").getAttribute("height"));
    await layout(page).locator(".stage").first().click({ position: { x: 120, y: line - 12 - 17 * 3 + 8 } });
    await redrawn(page, "Step 11 of 24");
    must(page.url().includes("n=11"), "the address is " + page.url());
    await shot(page, "explorer-debug");
  },

  async "pictures can be taken away in every form"() {
    for (const form of ["PNG", "PDF", "TIKZ", "JSON", "CSV", "MD", "TXT"]) {
      const [file] = await Promise.all([page.waitForEvent("download"), layout(page).getByRole("link", { name: form, exact: true }).first().click()]);
      must(file.suggestedFilename() === "debug." + form.toLowerCase(), form + " is " + file.suggestedFilename());
    }
  },

  async "axe finds nothing, in light and dark"() {
    for (const scheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: scheme });
      await page.goto(base);
      await drawn(page);
      await page.waitForFunction(() => document.querySelector("#devices").textContent.includes("interp"));
      await shot(page, "explorer-" + scheme, { fullPage: true });
      await scan(page, scheme);
    }
  },

  async "nothing came from elsewhere, nothing complained"() {
    must(foreign.length === 0, "requests to " + foreign.join(", "));
    must(complaints.length === 0, complaints.join("\n"));
  },
});
