// The explorer as files: from a plain file server under a folder, and from the disk.
//
//   node site.mjs ADDRESS FILE

import { tmpdir } from "node:os";
import path from "node:path";
import { open, run, must, shot, scan, layout, pictures, drawn, redrawn, spot } from "./lib.mjs";

const [, , address, file] = process.argv;
const { browser, context, page } = await open();
const shared = path.join(tmpdir(), "tilus-shared-" + process.pid + ".html");
const foreign = [], complaints = [];
page.on("request", (r) => {
  if (!/^(data|blob):/.test(r.url()) && !r.url().startsWith(address) && !r.url().startsWith("file:")) foreign.push(r.url());
});
page.on("console", (m) => { if (m.type() === "error") complaints.push(m.text()); });
page.on("pageerror", (e) => complaints.push(String(e)));

// type replaces the layout key by key, paste at once.
async function select() {
  await layout(page).getByRole("textbox").first().click();
  await page.keyboard.press("Control+A");
}
async function type(text) {
  await select();
  await page.keyboard.type(text);
}
async function paste(text) {
  await select();
  await page.keyboard.insertText(text);
}

await run(browser, () => context.pages(), {
  async "a file server shows it under any folder"() {
    await page.goto(address);
    await drawn(page);
    await redrawn(page, "Thread 5 slot 2 holds (9, 2)");
    must(await page.locator("#offline").isHidden(), "the page says " + await page.locator("#offline").textContent());
    await shot(page, "site");
  },

  async "typing draws"() {
    const before = await pictures(page);
    await type("spatial(4, 8).local(2, 2)");
    await redrawn(page, "[8, 16]");
    must(JSON.stringify(await pictures(page)) !== JSON.stringify(before), "the pictures are the same");
    must(page.url().startsWith(address) && page.url().includes("e="), "the address is " + page.url());
    await page.reload();
    await redrawn(page, "[8, 16]");
  },

  async "an error keeps the pictures and names its place"() {
    const before = await pictures(page);
    await paste("spatial(4, 8).locl(2, 2)");
    await layout(page).locator(".errors").getByText("column 15").waitFor();
    must(JSON.stringify(await pictures(page)) === JSON.stringify(before), "the pictures changed");
    await paste("spatial(4, 8).local(2, 2)");
    await layout(page).locator(".errors").waitFor({ state: "hidden" });
  },

  async "other panes work: banks, catalogue, Volta, dispatch"() {
    for (const [query, said] of [["p=banks", "32 wavefronts"], ["p=catalogue&i=mma.m16n8k16.f32.f16", "mma.m16n8k16"], ["p=volta", ""], ["p=dispatch", ""]]) {
      await page.goto(address + "?v=1&" + query);
      await drawn(page);
      await redrawn(page, said);
    }
  },

  async "every pane of the list draws, on a dark page too"() {
    await page.emulateMedia({ colorScheme: "dark" });
    await page.goto(address);
    await drawn(page);
    await page.getByRole("button", { name: "+ pane" }).click();
    await page.locator("#palette-list [role=option]").nth(8).waitFor();
    const names = await page.locator("#palette-list [role=option] span").allTextContents();
    must(names.length >= 12, "there are only " + names);
    await page.keyboard.press("Escape");
    for (const name of names) {
      await page.goto(address + "?v=1&p=see");
      await page.waitForFunction(() => document.querySelector("section.pane .say")?.textContent.length > 3);
      await page.getByRole("button", { name: "+ pane" }).click();
      await page.getByRole("combobox", { name: "Find" }).fill(name);
      await page.waitForFunction((name) => document.querySelector("#palette-list [aria-selected=true] span")?.textContent === name, name);
      await page.keyboard.press("Enter");
      await page.waitForFunction(() => document.querySelectorAll("section.pane").length === 2);
      await page.waitForFunction(() => document.querySelector("section.pane .say")?.textContent.length > 3);
      must(await layout(page).locator(".errors").isHidden(), name + ": " + await layout(page).locator(".errors").textContent());
    }
    await page.emulateMedia({ colorScheme: "light" });
  },

  async "pictures are taken away"() {
    await page.goto(address + "?v=1&p=layout&e=spatial(4,+8).local(2,+2)");
    await redrawn(page, "[8, 16]");
    for (const form of ["PNG", "HTML"]) {
      const [file] = await Promise.all([page.waitForEvent("download"), layout(page).getByRole("link", { name: form, exact: true }).first().click()]);
      must(file.suggestedFilename() === "layout." + form.toLowerCase(), form + " is " + file.suggestedFilename());
      if (form === "HTML") await file.saveAs(shared);
    }
  },

  async "a shared page can be pointed at, by mouse and keys, and takes nothing from elsewhere"() {
    const other = await context.newPage();
    other.on("console", (m) => complaints.push(m.text()));
    other.on("request", (r) => { if (!r.url().startsWith("file:")) foreign.push(r.url()); });
    await other.goto("file://" + shared);
    await other.locator("#stage svg").hover(await spot(other.locator("#stage svg"), 0, 2));
    await other.locator("#said").getByText("is held by thread").waitFor();
    const said = await other.locator("#said").textContent();
    await other.mouse.move(1, 1);
    await other.locator("#stage").focus();
    await other.keyboard.press("ArrowRight");
    await other.locator("#said").getByText("is held by thread").waitFor();
    must(await other.locator("#stage path.chosen").getAttribute("d") !== "", "nothing is framed after " + said);
    await other.evaluate(() => { const s = document.createElement("script"); s.textContent = "window.executed = 1"; document.body.append(s); });
    must(await other.evaluate(() => window.executed) === undefined, "the page runs scripts that are not its own");
    complaints.length = 0; // of that refusal
    await scan(other, "shared page");
    await other.close();
  },

  async "embedding shows the picture alone"() {
    await page.goto(address + "?v=1&p=layout&e=spatial(4,+8).local(2,+2)&embed=1");
    await redrawn(page, "[8, 16]");
    must(await page.locator("header.top").isHidden(), "the page's head is shown");
  },

  async "axe finds nothing"() {
    await page.goto(address);
    await drawn(page);
    await redrawn(page, "holds");
    await scan(page, "static explorer");
  },

  async "it opens from the disk"() {
    await page.goto(file);
    await drawn(page);
    await redrawn(page, "Thread 5 slot 2 holds (9, 2)");
    await type("spatial(4, 8).local(2, 2)");
    await redrawn(page, "[8, 16]");
    await page.goto(file + "?v=1&p=banks");
    await redrawn(page, "32 wavefronts");
    await shot(page, "site-file");
  },

  async "nothing came from elsewhere, nothing complained"() {
    must(foreign.length === 0, "requests to " + foreign.join(", "));
    must(complaints.length === 0, complaints.join("\n"));
  },
});
