// The explorer behind jupyter-server-proxy.
//
//   node proxy.mjs JUPYTER ADDRESS

import { open, run, must, layout, drawn, redrawn } from "./lib.mjs";

const [, , jupyter, address] = process.argv;
const base = address.slice(0, address.indexOf("?"));
const { browser, context, page } = await open();
const foreign = [];
page.on("request", (r) => { if (!/^(data|blob):/.test(r.url()) && !r.url().startsWith(base)) foreign.push(r.url()); });

await run(browser, () => context.pages(), {
  async "a stranger gets past neither the proxy nor the token"() {
    const other = await (await browser.newContext()).newPage();
    await other.goto(base);
    must(!await other.locator("#content").count(), "the explorer is shown to who is not logged in");
    await other.close();
  },

  async "logging in at Jupyter and opening the address shows the page"() {
    await page.goto(jupyter + "login");
    await page.fill("input[name=password]", "tilus");
    await page.press("input[name=password]", "Enter");
    await page.waitForLoadState("networkidle");
    await page.goto("about:blank"); // Jupyter's page asks for nothing any more
    foreign.length = 0;
    await page.goto(address);
    await drawn(page);
    await redrawn(page, "Thread 5 slot 2 holds (9, 2)");
    must(page.url().startsWith(base) && !page.url().includes("token"), "the address is " + page.url());
  },

  async "typing draws, reloading keeps it"() {
    await layout(page).getByRole("textbox").first().click();
    await page.keyboard.press("Control+A");
    await page.keyboard.type("spatial(4, 8).local(2, 2)");
    await redrawn(page, "[8, 16]");
    must(page.url().startsWith(base), "the address is " + page.url());
    await page.reload();
    await redrawn(page, "[8, 16]");
  },

  async "pictures and notebooks lie under the same address"() {
    const [file] = await Promise.all([page.waitForEvent("download"), layout(page).getByRole("link", { name: "PNG", exact: true }).first().click()]);
    must(file.suggestedFilename() === "layout.png", "the file is " + file.suggestedFilename());
    await page.goto(base + "nb/01");
    await page.locator("h1, h2").nth(1).waitFor();
    must(foreign.length === 0, "requests to " + foreign.join(", "));
  },
});
