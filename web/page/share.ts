// Taking the page away: its link, and what a pane shows in every way of writing it.

import { html, nothing, render } from "lit-html";
import { query } from "./address";
import { announce, make, prefix } from "./dom";
import { front, share } from "./state";
import type { View } from "./view";
import type { Copy } from "./wire";

let box: HTMLDialogElement | undefined;

// dialog shows what is drawn into it, one at a time.
function dialog(title: string, content: unknown) {
  if (!box) {
    box = make("dialog", { class: "share", "aria-labelledby": "share-title" });
    document.body.append(box);
  }
  render(html`<h2 id="share-title">${title}</h2>${content}<p><button type="button" class="quiet" @click=${() => box!.close()}>Close</button></p>`, box);
  if (!box.open) box.showModal();
}

async function copy(text: string, what: string) {
  try {
    await navigator.clipboard.writeText(text);
    announce(what + " is copied");
    note(what + " is copied.");
  } catch {
    note("This browser does not let pages copy; select the text instead.");
  }
}

function note(text: string) {
  const e = box?.querySelector(".note");
  if (e) e.textContent = text;
}

const line = (what: string, text: string, about: string) => html`<div class="give"><label>${what}<input type="text" readonly .value=${text} @focus=${(e: Event) => (e.target as HTMLInputElement).select()}></label><button type="button" class="quiet" aria-label=${"Copy: " + what} @click=${() => copy(text, what)}>copy</button>${about ? html`<small>${about}</small>` : nothing}</div>`;

// showShare offers the links to this page.
export function showShare() {
  const here = location.href;
  const { local, static: base } = share.value;
  const v = front.value;
  const embed = location.pathname + (location.search ? location.search + "&" : "?v=1&") + "embed=1";
  dialog("Share this page", [
    line("Link", here, local ? "Works on this machine only." : ""),
    base ? line("Link that works anywhere", base + location.search, "To a static copy: no server, no devices.") : nothing,
    line("Open it on any machine that has Tilus Lab", "tilus-lab open '" + (location.search || "?v=1&p=layout").replaceAll("'", "%27") + "'", ""),
    v ? html`<p><a class="file" download href=${prefix + "svg" + query([{ row: v.row, values: v.sent }]) + "&as=html"}>${v.title} as one page of HTML</a> – needs no server, nothing installed and no network.</p>` : nothing,
    line("Frame for another page", `<iframe src="${location.origin + embed}" width="100%" height="600"></iframe>`, local ? "Works on this machine only." : ""),
    html`<p>Below each picture stand its files: SVG, PNG, PDF, TikZ, JSON, CSV and others. A link never runs cells, a device or reads files.</p><p class="note" role="status"></p>`,
  ]);
}

// copyAs offers what a pane shows in every way of writing it.
let asked = 0;
export async function copyAs(v: View) {
  const mine = ++asked;
  let list: Copy[];
  try {
    list = await v.copies();
  } catch (e) {
    list = [];
    announce((e as Error).message);
  }
  if (mine !== asked) return; // another pane was asked for since
  dialog("Copy " + v.title + " as", html`${list.length ? nothing : html`<p>This pane has nothing to write down beside its link.</p>`}<ul class="copies">${list.map((c) => html`<li><b>${c.title}</b>${c.text ? html`<pre tabindex="0">${c.text}</pre><button type="button" class="quiet" aria-label=${"Copy as " + c.title} @click=${() => copy(c.text!, c.title)}>copy</button>` : html`<small>${c.error}</small>`}</li>`)}</ul><p class="note" role="status"></p>`);
}
