// Drives the explorer in a real Chromium. Each check is a named function; the
// script prints one line for each and ends with status 1 if any failed.
//
//   node browser.mjs START_URL
//
// TILUS_NODE is the folder that holds node_modules, TILUS_CHROMIUM the browser,
// TILUS_SHOTS a folder for screenshots or nothing, TILUS_PUSH an address that
// makes the server receive a changed variable from a notebook.

import { drawn, must, open, scan } from "../browser/lib.mjs";

const shots = process.env.TILUS_SHOTS;
const start = process.argv[2];
const base = new URL(start).origin + "/";

const { browser, page } = await open();
const foreign = [], complaints = [], blocked = [];
page.on("request", (r) => { if (!r.url().startsWith(base) && !r.url().startsWith("data:") && !r.url().startsWith("ws:")) foreign.push(r.url()); });
page.on("console", (m) => {
  // The notebook of this test brings a script; that Chromium did not run it is what we want to hear.
  if (m.type() === "error") (/^Blocked script execution in .*\/frame\//.test(m.text()) ? blocked : complaints).push(m.text());
});
page.on("pageerror", (e) => complaints.push(String(e)));

const layout = () => page.locator("section.pane").first();
const field = () => layout().locator("input[type=text]").first();
const settled = () => drawn(page);

// editors waits until texts of several lines have become editors.
const editors = () => page.waitForFunction(() => document.body.dataset.editors === "ready");

const checks = {
  async "the token leaves the address and the page is never blank"() {
    await page.goto(start);
    await settled();
    must(!page.url().includes("token"), "the address still holds the token: " + page.url());
    const say = await layout().locator(".say").textContent();
    must(say.includes("Thread 5 slot 2 holds (9, 2)"), "the sentence is " + say);
    await page.waitForFunction(() => [...document.querySelectorAll("section.pane:not(#run)")].every((p) => p.querySelector(".stage > svg")));
    must(await page.locator(".stage").count() === 3, "two views and the bits are shown");
    if (shots) await page.screenshot({ path: shots + "/start-light.png", fullPage: true });
  },

  async "a picture bound to a variable follows the notebook"() {
    await page.goto(base + "?v=1&p=layout&e=$acc@s1");
    await settled();
    await page.waitForFunction(() => document.querySelector(".say").textContent.includes("[8, 4]"));
    const chip = layout().locator(".chip");
    must((await chip.locator("span").textContent()) === "acc in test.ipynb", "the field shows " + await chip.textContent());
    must(await field().isHidden() && page.url().includes("$acc@s1"), "the bound field shows its reference");
    await scan(page, "a bound field");
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

  async "what runs is listed beside the notebooks, and opens"() {
    await page.goto(base + "nb/");
    await page.getByRole("heading", { name: "Running" }).waitFor();
    const entry = page.locator(".running li", { hasText: "test" });
    await entry.getByRole("link", { name: "acc" }).click();
    await page.waitForFunction(() => document.querySelector("section.pane .chip b")?.textContent === "acc");
    await page.waitForFunction(() => document.querySelector("section.pane .say")?.textContent.includes("holds"));
  },

  async "a program runs on a device"() {
    await page.goto(base);
    await page.getByRole("link", { name: "Run" }).click();
    await page.waitForSelector("#run");
    must(await page.locator("section.pane").count() === 1 && (await page.locator("textarea").evaluateAll((all) => all.filter((e) => e.value.startsWith("program ")).length)) === 1, "the Run door shows more than one program");
    await page.getByRole("button", { name: "Run on the device" }).click();
    await page.waitForFunction(() => document.querySelector("#run-out").textContent.startsWith("on interp"));
  },

  async "a chosen text stands in its field, and whoever edits it writes their own"() {
    await page.goto(base + "?v=1&p=banks&a=load+4%3A+lane*20");
    await settled();
    const access = page.getByLabel("Access", { exact: true }), pick = page.getByLabel("Pick an access");
    await pick.selectOption("every second word");
    await page.waitForFunction(() => document.querySelector(".say").textContent.startsWith("2 wavefronts"));
    must(await access.inputValue() === "load 4: lane*8", "the field shows " + await access.inputValue());
    await pick.selectOption("the text");
    must(await access.inputValue() === "load 4: lane*20", "the text that was there is now " + await access.inputValue());
    await pick.selectOption("every second word");
    await access.fill("load 4: lane*16");
    await page.waitForFunction(() => document.querySelector(".say").textContent.startsWith("4 wavefronts"));
    must(await pick.inputValue() === "the text" && !page.url().includes("k="), "still chosen: " + await pick.inputValue() + ", " + page.url());
  },

  async "an address that begins with a mistake says whose picture it shows, in fields that show all of it"() {
    await page.goto(base + "?v=1&p=mma&i=mma.m16n8k16.row.col.f32.f16.f61.f32");
    await settled();
    must((await layout().locator(".errors").textContent()).includes("this pane's own example"), "nothing says that the picture is an example");
    must(await field().evaluate((e) => e.scrollWidth <= e.clientWidth), "the field cuts its text");
    await field().fill("mma.m16n8k8.f32.f16");
    await page.waitForFunction(() => document.querySelector(".say").textContent.startsWith("mma.m16n8k8.f32.f16"));
    await field().fill("mma.m16n8k8.f32.f1");
    await layout().locator(".errors").waitFor();
    must(!(await layout().locator(".errors").textContent()).includes("example"), "the picture from before is called an example");
    await page.goto(base + "?v=1&p=lay%3Cb%3Eout&p=banks");
    await settled();
    must((await page.locator("#other").textContent()).includes("lay<b>out") && await page.locator("section.pane").count() === 1, "nothing tells of a pane that is not there");
    await page.goto(base + "?v=1&p=layout");
    await settled();
    must(await page.locator("#other").isHidden(), "a known pane is told");
    const tops = await layout().locator(".fields label").evaluateAll((all) => all.filter((e) => e.offsetParent).map((e) => Math.round(e.getBoundingClientRect().top)));
    must(new Set(tops).size === 1, "the names of fields stand at " + tops);
  },

  async "axe finds nothing, in light and dark"() {
    for (const scheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: scheme });
      for (const at of ["?v=1#run", "?v=1&p=layout&e=local(2", "nb/", "nb/01"]) {
        await page.goto(base + at);
        await page.waitForSelector("section, ul.shelf");
        if (at.startsWith("?")) await settled();
        if (at === "nb/01") await editors();
        await page.waitForFunction(() => document.querySelector("#devices").textContent.includes("interp"));
        await scan(page, scheme + " " + at);
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
