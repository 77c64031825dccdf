// The panes of the machine models: they fit, they link, choosing an element shows it,
// and the answer of an exercise stays away until it is asked for.
//
//   node models.mjs ADDRESS

import { open, run, must, shot, scan, drawn, redrawn } from "./lib.mjs";

const start = process.argv[2];
const base = new URL(start).origin + "/";
const { browser, context, page } = await open();
await page.setViewportSize({ width: 1280, height: 900 });
const panes = ["volta", "follow", "dispatch", "blocks", "exercise"];
const complaints = [];
page.on("console", (m) => { if (m.type() === "error") complaints.push(m.text()); });
page.on("pageerror", (e) => complaints.push(String(e)));

const show = async (query) => {
  await page.goto(base + "?v=1&p=" + query);
  await page.waitForFunction(() => document.querySelector("section.pane .say")?.textContent);
};
// choose clicks the first element that says a text when it is pointed at.
const choose = async (text) => {
  const found = await page.evaluate((text) => {
    const stage = document.querySelector("section.pane .stage");
    const { width, height } = stage.getBoundingClientRect();
    for (let y = 4; y < height; y += 3) for (let x = 4; x < width; x += 6) {
      const box = stage.getBoundingClientRect(); // what is said above may take fewer lines now
      const at = { clientX: box.left + x, clientY: box.top + y, bubbles: true };
      stage.dispatchEvent(new PointerEvent("pointermove", at));
      if (!document.querySelector("section.pane .say").textContent.toLowerCase().includes(text.toLowerCase())) continue;
      stage.dispatchEvent(new PointerEvent("click", at));
      return true;
    }
    return false;
  }, text);
  must(found, "no element says " + text);
};

await run(browser, () => context.pages(), {
  async "the panes open and fit, and axe finds nothing, in light and dark"() {
    await page.goto(start);
    await drawn(page);
    for (const scheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: scheme });
      for (const name of panes) {
        await show(name);
        if (name !== "exercise") await drawn(page);
        const wide = await page.locator(".canvas").evaluateAll((all) => all.map((c) => c.scrollWidth - c.clientWidth));
        must(wide.every((n) => n <= 1), name + " is wider than its pane by " + wide);
        await scan(page, name + ", " + scheme);
        await shot(page, name + "-" + scheme, { fullPage: true });
      }
    }
    await page.emulateMedia({ colorScheme: "light" });
  },

  async "sliders rest that play no part: those of one kernel beside another scenario"() {
    const resting = () => page.locator(".field.idle label").allTextContents();
    for (const [query, want] of [["", "Block"], ["&s=slow-player", "Compute units,Enabled,Blocks,Block"], ["&s=slow-player&v=stairs", "Scenario,Enabled,Slots,May skip,Runtime,Tick (−1: all),Block"]]) {
      await show("dispatch" + query);
      await drawn(page);
      must(String(await resting()) === want, query + ": " + await resting());
    }
    must(await page.getByLabel("Show").inputValue() === "staircase", "a choice is not shown by its own name");
  },

  async "choosing a green box shows its multiplier at work"() {
    await show("volta&v=multipliers");
    await drawn(page);
    const before = await page.locator("section.pane .say").textContent();
    await choose("for D[0,6] of lane");
    await page.waitForFunction((before) => document.querySelector("section.pane .say").textContent !== before, before);
    must(/[?&]b=\d+/.test(page.url()), "the address is " + page.url());
    await page.mouse.move(0, 0);
    await redrawn(page, "D[");
    await shot(page, "volta-box");
  },

  async "choosing an instruction shows its state"() {
    await show("volta");
    await drawn(page);
    await choose("the first 3 instructions");
    await page.waitForFunction(() => /[?&]n=3(&|$)/.test(location.search));
  },

  async "an element is followed from memory to HMMA by choosing"() {
    await show("follow");
    await drawn(page);
    await choose("A[2,3] at byte");
    await page.waitForFunction(() => /[?&]r=2(&|$)/.test(location.search) && /[?&]c=3(&|$)/.test(location.search));
    await redrawn(page, "A[2,3]");
    await choose("instruction 2 of 16");
    await page.waitForFunction(() => /[?&]n=2(&|$)/.test(location.search));
  },

  async "a block says why it started"() {
    await show("dispatch&s=slow-player");
    await drawn(page);
    await choose("block 2 of victim runs");
    await page.waitForFunction(() => /[?&]n=2(&|$)/.test(location.search) && location.search.includes("v=why"));
    await page.waitForFunction(() => document.querySelector("section.pane figcaption").textContent.includes("causes"));
  },

  async "play moves the state on"() {
    await show("volta&n=0");
    await drawn(page);
    await page.getByRole("button", { name: "Play Instructions done" }).click();
    await page.waitForFunction(() => Number(document.querySelector("section.pane output").textContent) >= 2);
    await page.getByRole("button", { name: "Pause Instructions done" }).click();
    await shot(page, "volta-played");
  },

  async "an exercise grades, and tells its answer only when asked"() {
    const heard = [];
    page.on("websocket", (ws) => ws.on("framereceived", (f) => heard.push(String(f.payload))));
    await show("exercise&k=mistake&q=3");
    const text = page.locator("section.pane pre");
    must((await text.textContent()).includes("It is not so"), "there is no question");
    must(!heard.some((f) => f.includes("answer: ")), "the page was sent the answer");
    await page.getByLabel("Your answer").fill("x");
    await redrawn(page, "Not yet");
    await page.getByLabel("Show the answer").selectOption("yes");
    await page.waitForFunction(() => document.querySelector("section.pane pre").textContent.includes("answer: "));
    const letter = /answer: ([a-d])/.exec(await text.textContent())[1];
    await page.getByLabel("Your answer").fill(letter);
    await redrawn(page, "Right: ");
    await shot(page, "exercise-right");
  },

  async "nothing complained"() {
    must(complaints.length === 0, complaints.join("\n"));
  },
});
