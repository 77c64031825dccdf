// What the page itself does, whatever panes there are.
//
//   node page.mjs START_URL

import { open, run, must, shot, scan, drawn, redrawn } from "../browser/lib.mjs";

const start = process.argv[2];
const base = new URL(start).origin + "/";
const { browser, context, page } = await open();
const complaints = [];
page.on("console", (m) => { if (m.type() === "error") complaints.push(m.text() + " at " + m.location().url + ":" + m.location().lineNumber + ":" + m.location().columnNumber + ", " + page.url()); });
page.on("pageerror", (e) => complaints.push(String(e)));
await page.addInitScript(() => {
  window.sockets = [];
  window.WebSocket = class extends WebSocket {
    constructor(...a) { super(...a); window.sockets.push(this); }
    set onmessage(f) { super.onmessage = (e) => { if (!window.hold?.(e, f)) f(e); }; }
  };
});

const show = async (query) => {
  await page.goto(base + query);
  await page.waitForFunction(() => document.querySelector("section.pane .say")?.textContent);
};
const editors = () => page.waitForFunction(() => document.body.dataset.editors === "ready");
const panes = () => page.locator("section.pane");
const titles = () => panes().locator("h2").allTextContents();
const editor = () => panes().first().getByRole("textbox", { name: "Program" });
const text = () => panes().first().locator("textarea").first().inputValue();
const command = async (words) => {
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Find" }).fill(words);
  await page.waitForFunction((words) => document.querySelector("#palette-list [aria-selected=true]")?.textContent.toLowerCase().startsWith(words.toLowerCase()), words);
  await page.keyboard.press("Enter");
};
// put writes into the line of a text that begins with a word, at its end.
const endOf = async (word) => {
  await editor().focus();
  await page.keyboard.press("Control+Home");
  const lines = (await text()).split("\n");
  for (let i = 0; i < lines.findIndex((s) => s.trim().startsWith(word)); i++) await page.keyboard.press("ArrowDown");
  await page.keyboard.press("End");
};

await run(browser, () => context.pages(), {
  async "an editor marks the range of an error and keeps the picture"() {
    await page.goto(start);
    await show("?v=1&p=program");
    await editors();
    const before = await panes().first().locator(".stage > svg").first().evaluate((e) => e.outerHTML);
    await endOf("y = Cast");
    await page.keyboard.press("Home");
    await page.keyboard.type("z = Castt(x)\n");
    await page.waitForFunction(() => document.querySelector(".cm-lintRange-error")?.textContent === "Castt");
    must(await editor().getAttribute("aria-invalid") === "true", "the editor is not marked");
    must((await panes().first().locator(".errors").textContent()).includes("line 6"), "the line is not named");
    must(await panes().first().locator(".stage > svg").first().evaluate((e) => e.outerHTML) === before, "the picture changed");
    await shot(page, "page-error");
    await scan(page, "an editor with an error");
  },

  async "an editor offers what may be written, and explains it"() {
    await editor().fill((await text()).replace(/\s*z = Castt\(x\)/, ""));
    await panes().first().locator(".errors").waitFor({ state: "hidden" });
    await endOf("y = Cast");
    await page.keyboard.press("Enter");
    await page.keyboard.type("q = Trans");
    await page.getByRole("option", { name: /^Transpose/ }).waitFor();
    await shot(page, "page-offers");
    await scan(page, "offers");
    await page.keyboard.press("Escape");
    await page.keyboard.press("Control+Space");
    await page.waitForFunction(() => document.querySelector(".cm-tooltip-autocomplete [aria-selected]")?.textContent.startsWith("Trans"));
    await page.waitForTimeout(200); // the editor takes no offer that has only just appeared
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => /q = Transpose\w*/.test(document.querySelector("section.pane textarea").value));
    await page.keyboard.press("F1");
    await panes().first().getByRole("note").filter({ hasText: "Transpose" }).waitFor();
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => document.querySelector(".manual").hidden);
    await page.locator(".cm-line", { hasText: "LoadGlobal" }).locator(".tok-propertyName").first().hover();
    await page.locator(".cm-tooltip .manual", { hasText: "LoadGlobal" }).waitFor();
    await shot(page, "page-manual");
    await page.mouse.move(2, 2);
  },

  async "a plain field offers, explains and marks the same"() {
    await show("?v=1&p=program");
    await editors();
    await command("Text fields: plain");
    await page.waitForFunction(() => !document.querySelector(".cm-editor"));
    must(await editor().evaluate((e) => e.tagName) === "TEXTAREA", "the field is no text area");
    await editor().fill((await text()).replace("y = Cast(x)", "y = Castt(x)"));
    await page.waitForFunction(() => document.querySelector(".mark u")?.textContent === "Castt");
    must(await editor().getAttribute("aria-invalid") === "true", "the field is not marked");
    await scan(page, "a plain field with an error");
    await editor().fill((await text()).replace(/\ty = Castt\(x\).*/, "\tq = LoadGl"));
    await endOf("q = LoadGl");
    await page.keyboard.press("Control+Space");
    await panes().first().getByRole("option", { name: /^LoadGlobal/ }).first().waitFor();
    must(await editor().getAttribute("aria-activedescendant") === await panes().first().locator(".offers [aria-selected=true]").getAttribute("id"), "the offer is not spoken");
    await scan(page, "offers of a plain field");
    await shot(page, "page-plain-offers");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.querySelector("section.pane textarea").value.includes("q = LoadGlobal"));
    await page.keyboard.press("F1");
    await panes().first().getByRole("note").filter({ hasText: "LoadGlobal" }).waitFor();
    await command("Text fields: editor");
    await page.locator(".cm-editor").first().waitFor();
    must((await text()).includes("q = LoadGlobal"), "the text was lost");
  },

  async "a layout's field offers factors and explains them"() {
    await show("?v=1&p=layout");
    const field = panes().first().getByRole("textbox", { name: "Layout" });
    await field.fill("local(2, 1).spa");
    await page.keyboard.press("Control+Space");
    await panes().first().getByRole("option", { name: /^spatial/ }).waitFor();
    await page.keyboard.press("Enter");
    must(await field.inputValue() === "local(2, 1).spatial", "the field has " + await field.inputValue());
    await page.keyboard.press("F1");
    await panes().first().getByRole("note").filter({ hasText: "spatial" }).waitFor();
  },

  async "marks show through their field"() {
    await show("?v=1&p=layout");
    await panes().first().getByRole("textbox", { name: "Layout" }).fill("local(2, 1).spatal(8, 4)");
    await page.waitForFunction(() => document.querySelector(".mark u")?.textContent === "spatal");
    must(await panes().first().getByRole("textbox", { name: "Layout" }).evaluate((e) => getComputedStyle(e).backgroundColor) === "rgba(0, 0, 0, 0)", "the field hides its marks");
    await shot(page, "page-mark");
  },

  async "panes are renamed, split and widened, and back undoes it"() {
    await show("?v=1&p=layout");
    await page.getByRole("button", { name: "Rename: Layout" }).click();
    await page.getByRole("textbox", { name: "Name of the pane" }).fill("Accumulator");
    await page.keyboard.press("Enter");
    must((await titles())[0] === "Accumulator", "the title is " + await titles());
    await page.waitForFunction(() => location.search.includes("_name=Accumulator"));
    await page.getByRole("button", { name: "Split: Accumulator" }).click();
    await page.waitForFunction(() => document.querySelectorAll("section.pane .stage").length === 4);
    const [a, b] = await Promise.all([panes().nth(0).boundingBox(), panes().nth(1).boundingBox()]);
    must(Math.abs(a.y - b.y) < 2 && a.x + a.width < b.x, "the panes are not side by side");
    await shot(page, "page-split");
    await scan(page, "panes side by side");
    await page.reload();
    await page.waitForFunction(() => document.querySelectorAll("section.pane .stage").length === 4);
    must(JSON.stringify(await titles()) === `["Accumulator","Layout"]` && await panes().nth(1).evaluate((e) => e.classList.contains("half")), "reloading gives " + await titles());
    await page.getByRole("button", { name: "Close: Layout" }).click();
    await page.waitForFunction(() => document.querySelectorAll("section.pane").length === 1 && !document.querySelector(".pane.half"));
    await page.goBack();
    await page.waitForFunction(() => document.querySelectorAll("section.pane.half").length === 2);
  },

  async "tabs on a small screen, by keys alone"() {
    await page.setViewportSize({ width: 320, height: 640 });
    await show("?v=1&p=layout&p=reinterpret&p=program");
    const tab = (name) => page.getByRole("tab", { name });
    await tab("Layout").waitFor();
    must(await page.locator("section.pane:visible").count() === 1, "more than one pane shows");
    await tab("Layout").focus();
    await page.keyboard.press("ArrowRight");
    must(await tab("Reinterpretation").getAttribute("aria-selected") === "true", "an arrow does not choose");
    await page.getByRole("tabpanel", { name: "Reinterpretation" }).waitFor();
    await page.keyboard.press("End");
    await page.getByRole("tabpanel", { name: "Program" }).waitFor();
    await editors();
    await scan(page, "tabs");
    await shot(page, "page-tabs");
    must(await page.evaluate(() => document.documentElement.scrollWidth) <= 320, "the page is wider than the screen");
    await page.setViewportSize({ width: 1360, height: 900 });
    await page.waitForFunction(() => document.querySelectorAll("section.pane:not(.behind)").length === 3);
    must(await page.getByRole("tab").count() === 0, "tabs stay on a large screen");
  },

  async "an element lights everywhere, is pinned, followed, and let go"() {
    await show("?v=1&p=layout&p=layout&e=local(2,+1).spatial(8,+4).local(1,+2)&pal=okabe-ito&p=program");
    await page.waitForFunction(() => document.querySelectorAll("section.pane .stage").length >= 5);
    const lit = (i) => panes().nth(i).locator(".overlay .hit[d*=M]").count();
    const canvas = panes().first().locator(".canvas").first();
    await canvas.focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    must(await lit(0) === 2 && await lit(1) === 2 && await lit(2) >= 1, "lit are " + [await lit(0), await lit(1), await lit(2)]);
    const strip = page.getByRole("complementary", { name: "The pinned element" });
    must(await strip.getByRole("listitem").count() >= 3, "the strip has " + await strip.textContent());
    await shot(page, "page-linked", { fullPage: true });
    await scan(page, "the strip");
    await strip.getByRole("button").nth(1).click();
    await page.waitForFunction(() => document.activeElement.classList.contains("canvas"));
    // Shift adds another, Escape clears all.
    await canvas.focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Shift+Enter");
    const cells = () => panes().first().locator(".overlay .hit").first().evaluate((e) => e.getAttribute("d").split("M").length - 1);
    must(await cells() === 2, "there are " + await cells() + " pins");
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => ![...document.querySelectorAll(".overlay path")].some((e) => e.getAttribute("d")));
    must(await strip.isHidden(), "the strip stays");
  },

  async "the factors of a layout say what they add, and light what they lead to"() {
    await show("?v=1&p=layout");
    const said = panes().first().locator(".terms").first();
    await panes().first().locator(".canvas").first().focus();
    await page.keyboard.press("ArrowDown");
    await page.waitForFunction(() => document.querySelector(".terms").textContent === "(0, 0) · (1, 0) · (0, 0)");
    must(await panes().first().locator(".mark .lit").first().textContent() === "spatial(8, 4)", "the factor that moves it is not marked");
    must(await said.getAttribute("title") === "local(2, 1) (0, 0) · spatial(8, 4) (1, 0) · local(1, 2) (0, 0)", "the factors are " + await said.getAttribute("title"));
    await scan(page, "factors");
    await shot(page, "page-terms");
    await page.keyboard.press("Enter");
    await panes().first().getByRole("textbox", { name: "Layout" }).focus();
    await page.keyboard.press("Home");
    // local(2, 1) leads to two elements, in both pictures.
    await page.waitForFunction(() => [...document.querySelectorAll(".overlay .hit")].every((e) => e.getAttribute("d").split("M").length - 1 === 2));
    must((await page.locator("#live").textContent()).startsWith("factor 1 leads to 2 cells"), "said " + await page.locator("#live").textContent());
    await panes().first().locator(".canvas").first().focus();
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => document.querySelector(".terms").textContent === "");
    must(await said.count() === 1, "the field is gone");
  },

  async "a line of a program lights what it became, and back"() {
    await show("?v=1&p=program&p=code");
    await editors();
    await page.waitForFunction(() => document.querySelectorAll("section.pane")[1]?.querySelectorAll(".stage").length === 2);
    await endOf("x = LoadGlobal");
    await page.waitForFunction(() => [...document.querySelectorAll("section.pane")[1].querySelectorAll(".overlay .hit")].every((e) => e.getAttribute("d")));
    await shot(page, "page-lines", { fullPage: true });
    await panes().nth(1).locator(".canvas").first().focus();
    await page.keyboard.press("ArrowDown");
    await page.locator("section.pane:first-child .cm-lit").waitFor();
  },

  async "what is asked while there is no connection is asked again"() {
    await show("?v=1&p=layout");
    // The page connects again when a timer ends: here when the field has been written into.
    await page.evaluate(() => {
      const later = window.setTimeout, held = [];
      window.setTimeout = (f) => held.push(f);
      window.goOn = () => {
        window.setTimeout = later;
        for (const f of held) f();
      };
      window.sockets.at(-1).close();
    });
    await page.locator("#offline").waitFor({ state: "visible" });
    await panes().first().getByRole("textbox", { name: "Layout" }).fill("spatial(4, 4)");
    await page.evaluate(() => window.goOn());
    await redrawn(page, "[4, 4]");
    await page.locator("#offline").waitFor({ state: "hidden" });
    must(await page.evaluate(() => window.sockets.length) === 2, "the page connected more than once");
  },

  async "an answer that comes late does not take the place of a newer one"() {
    await show("?v=1&p=layout");
    const field = panes().first().getByRole("textbox", { name: "Layout" });
    await page.evaluate(() => {
      window.hold = (e, take) => {
        if (!JSON.parse(e.data).body?.pictures) return false;
        window.hold = null;
        window.release = () => take(e);
        return true;
      };
    });
    await field.fill("spatial(4, 4)");
    await page.waitForFunction(() => window.release);
    await field.fill("spatial(2, 8)");
    await redrawn(page, "[2, 8]");
    const was = await panes().first().locator(".stage > svg").first().evaluate((e) => e.outerHTML);
    await page.evaluate(() => window.release());
    must((await panes().first().locator(".say").textContent()).includes("[2, 8]") && await panes().first().locator(".stage > svg").first().evaluate((e) => e.outerHTML) === was, "the older picture is shown");
  },

  async "a text that no address can hold is said to be so"() {
    await show("?v=1&p=see");
    await editors();
    const url = page.url();
    await panes().first().getByRole("textbox").first().fill("// " + "x".repeat(9000));
    await page.locator("#long").waitFor({ state: "visible" });
    must(page.url() === url || page.url().length < 8300, "the address has " + page.url().length + " bytes");
    await panes().first().getByRole("textbox").first().fill("f16");
    await page.locator("#long").waitFor({ state: "hidden" });
  },

  async "the page is shared, and what it shows is copied"() {
    await show("?v=1&p=layout");
    await page.getByRole("button", { name: "Share" }).click();
    const dialog = page.getByRole("dialog", { name: "Share this page" });
    await dialog.waitFor();
    must(await dialog.getByRole("textbox", { name: "Link", exact: true }).inputValue() === page.url(), "the link is another");
    must((await dialog.textContent()).includes("this machine only"), "the link is not marked local");
    must(await dialog.getByRole("textbox", { name: "Open it on any machine" }).inputValue() === "tilus-lab open '?v=1&p=layout'", "the command is another");
    const [file] = await Promise.all([page.waitForEvent("download"), dialog.getByRole("link", { name: "as one page of HTML" }).click()]);
    must(file.suggestedFilename() === "layout.html", "the page of HTML is " + file.suggestedFilename());
    await scan(page, "sharing");
    await shot(page, "page-share");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Copy as: Layout" }).click();
    const copies = page.getByRole("dialog", { name: "Copy Layout as" });
    await copies.getByText("Go", { exact: true }).waitFor();
    must((await copies.textContent()).includes("((4,8),(2,2))") || (await copies.textContent()).includes("CuTe"), "there is no CuTe");
    await scan(page, "copies");
    await shot(page, "page-copies");
    await page.keyboard.press("Escape");
  },

  async "nothing complained"() {
    must(complaints.length === 0, complaints.join("\n"));
  },
});
