// What stands around the panes: heading and title, the menus of small screens, colours,
// more panes, more windows, and a pane alone.
//
//   node shell.mjs ADDRESS

import { open, run, must, shot, scan, layout, pictures, drawn, redrawn, spot } from "./lib.mjs";

const start = process.argv[2];
const base = new URL(start).origin + "/";
const { browser, context, page } = await open();
const question = "Which thread holds which element, and which bits?";
const complaints = [];
page.on("console", (m) => { if (m.type() === "error") complaints.push(m.text()); });
page.on("pageerror", (e) => complaints.push(String(e)));
const heading = () => page.getByRole("heading", { level: 1 }).textContent();
const titled = (text) => page.waitForFunction((text) => document.title === text + " – Tilus Lab", text);
const panes = (n) => page.waitForFunction((n) => document.querySelectorAll("section.pane:not(#run)").length === n, n);
const paper = () => page.evaluate(() => document.querySelector(".stage > svg rect").getAttribute("fill"));

await run(browser, () => context.pages(), {
  async "heading and title belong to what is open"() {
    await page.goto(start);
    await drawn(page);
    must(await heading() === question, "the heading is " + await heading());
    await titled("Layout, Reinterpretation");
    await page.goto(base + "?v=1&p=banks");
    await redrawn(page, "wavefronts");
    await titled("Banks and swizzles");
    must(await heading() === "Banks and swizzles", "over the banks stands " + await heading());
    must(!(await page.locator("body").innerText()).includes(question), "the question stands over another pane");
    await page.getByRole("button", { name: "Rename: Banks and swizzles" }).click();
    await page.getByRole("textbox", { name: "Name of the pane" }).fill("Epilogue");
    await page.keyboard.press("Enter");
    await titled("Epilogue");
    await page.goBack();
    await titled("Banks and swizzles");
  },

  async "a pane is added from a list of panes, and every one can be"() {
    await page.goto(base + "?v=1&p=banks");
    await redrawn(page, "wavefronts");
    await page.getByRole("button", { name: "+ pane" }).click();
    const options = page.locator("#palette-list [role=option]");
    await options.first().waitFor();
    const kinds = await page.locator("#palette-list small").allTextContents();
    must(kinds.length > 14 && kinds.every((k) => k === "pane"), "the list of panes has " + kinds);
    await page.keyboard.type("volta");
    await page.keyboard.press("Enter");
    await panes(2);
    await titled("Volta's tensor core, Banks and swizzles");
    await page.goBack();
    await panes(1);
    await page.goForward();
    await panes(2);
  },

  async "colours are chosen at the top, and pictures follow"() {
    await page.goto(base + "?v=1&p=layout");
    await drawn(page);
    const look = page.getByRole("combobox", { name: "Colours of the page" });
    for (const [name, want] of [["Dark", "#0d1117"], ["High contrast", "#000000"], ["Light", "#ffffff"]]) {
      await look.selectOption(name);
      await page.waitForFunction((want) => document.querySelector(".stage > svg rect").getAttribute("fill") === want, want);
      await page.reload();
      await drawn(page);
      must(await paper() === want, name + ": after a reload pictures stand on " + await paper());
      must(!page.url().includes("th="), "the colours of this browser are in the address");
    }
    // The same bytes as the command line's, in high contrast too.
    await look.selectOption("High contrast");
    await page.waitForFunction(() => document.querySelector(".stage > svg rect").getAttribute("fill") === "#000000");
    const equal = await page.evaluate(async () => {
      const svg = (t) => { const e = document.createElement("template"); e.innerHTML = t; const s = e.content.querySelector("svg"); s.querySelector("title")?.remove(); return s.innerHTML; };
      const here = document.querySelector(".stage > svg").innerHTML;
      return here === svg(await (await fetch("svg?v=1&p=layout&th=contrast")).text());
    });
    must(equal, "the page shows another picture than the address gives");
    await shot(page, "shell-contrast");
    await look.selectOption("Auto");
    await page.waitForFunction(() => document.querySelector(".stage > svg rect").getAttribute("fill") === "#ffffff");
    await page.emulateMedia({ contrast: "more" });
    await page.waitForFunction(() => document.querySelector(".stage > svg rect").getAttribute("fill") === "#000000");
    await page.emulateMedia({ contrast: "no-preference" });
  },

  async "menus of a small screen, by touch and by keys"() {
    await page.setViewportSize({ width: 320, height: 640 });
    for (const scheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: scheme });
      await page.goto(base);
      await drawn(page);
      const [top, canvas] = await page.evaluate(() => [document.querySelector("header.top").offsetHeight, document.querySelector(".canvas").getBoundingClientRect().top]);
      must(top <= 60, "the head is " + top + " px high");
      must(canvas < 560, "the first picture begins at " + canvas + " px");
      await page.getByRole("button", { name: "Menu" }).click();
      for (const door of ["Learn", "See", "Run"]) await page.getByRole("navigation").getByRole("link", { name: door }).waitFor();
      await page.locator("#devices").getByText("interp").waitFor();
      await scan(page, "the menu in " + scheme);
      await shot(page, "shell-menu-" + scheme);
      await page.keyboard.press("Escape");
      must(await page.locator("#menu").isHidden(), "Escape does not close the menu");
    }
    await page.getByRole("button", { name: "More: Layout" }).click();
    await page.getByRole("button", { name: "Duplicate: Layout" }).waitFor();
    await shot(page, "shell-more");
    await scan(page, "what to do with a pane");
    await page.getByRole("button", { name: "Duplicate: Layout" }).click();
    await panes(3);
    must(await page.getByRole("tab", { name: "Layout (2)" }).getAttribute("aria-selected") === "true", "the copy is not in front");
    must(await page.locator(".tools:popover-open").count() === 0, "the menu stays open");
    await titled("Layout (2)");
    // Fields that were left out come when they are asked for, or when they are wrong.
    await page.goto(base + "?v=1&p=layout");
    await drawn(page);
    const more = page.getByRole("button", { name: "Show, Compare with, Colours" });
    must(await page.getByRole("combobox", { name: "Show" }).isHidden(), "all fields show at once");
    await more.focus();
    await page.keyboard.press("Enter");
    await page.getByRole("combobox", { name: "Show" }).waitFor();
    must(await more.getAttribute("aria-expanded") === "true", "the button does not say that it is open");
    await page.goto(base + "?v=1&p=layout&s=difference&f=spatil(8,+4)");
    await page.getByRole("textbox", { name: "Compare with" }).waitFor();
    await page.setViewportSize({ width: 1360, height: 900 });
    await page.emulateMedia({ colorScheme: "light" });
  },

  async "two windows have states of their own"() {
    await page.goto(base + "?v=1&p=layout&e=spatial(4,+8)");
    await redrawn(page, "[4, 8]");
    const other = await context.newPage();
    await other.goto(base + "?v=1&p=layout&e=spatial(8,+4)");
    await redrawn(other, "[8, 4]");
    await layout(other).getByRole("textbox", { name: "Layout" }).fill("spatial(16, 2)");
    await redrawn(other, "[16, 2]");
    await layout(page).getByRole("textbox", { name: "Layout" }).fill("spatial(2, 16)");
    await redrawn(page, "[2, 16]");
    must((await layout(other).locator(".say").textContent()).includes("[16, 2]"), "one window changes the other");
    await other.goBack();
    await redrawn(other, "[8, 4]");
    await other.close();
  },

  async "a pane alone, for other pages"() {
    for (const scheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: scheme });
      await page.goto(base + "?v=1&p=layout&e=local(2,+1).spatial(8,+4)&embed=1");
      await drawn(page);
      for (const gone of ["header.top", ".pane > header", ".fields", ".form"]) must(await page.locator(gone).first().isHidden(), gone + " is shown");
      await page.locator(".canvas").first().hover(await spot(page.locator(".canvas").first(), 0, 2));
      await page.waitForFunction(() => document.querySelectorAll(".overlay .hit[d*=M]").length === 2);
      await page.mouse.move(1, 1);
      await shot(page, "shell-embed-" + scheme);
      await scan(page, "a pane alone in " + scheme);
    }
    await page.emulateMedia({ colorScheme: "light" });
  },

  async "nothing complained"() {
    must(complaints.length === 0, complaints.join("\n"));
  },
});
