// The command palette.

import { html, render } from "lit-html";
import { announce, make } from "./dom";
import type { Entry } from "./wire";

// score is how well words fit a title: -1 not at all, else smaller is better. The
// letters of each word must come in order; at best the word stands there whole.
export function score(title: string, words: string[]) {
  const text = title.toLowerCase();
  let sum = 0;
  for (const w of words) {
    const whole = text.indexOf(w);
    if (whole >= 0) {
      sum += whole === 0 ? 0 : /[a-z0-9]/.test(text[whole - 1]) ? 3 : 1;
      continue;
    }
    let at = -1, first = -1;
    for (const c of w) {
      at = text.indexOf(c, at + 1);
      if (at < 0) return -1;
      if (first < 0) first = at;
    }
    sum += 10 + (at - first - w.length);
  }
  return sum + text.length / 1000;
}

const maxShown = 40;

// Palette is a dialog with a field and the entries that fit it.
export class Palette {
  private input = make("input", { type: "text", role: "combobox", "aria-expanded": "true", "aria-controls": "palette-list", "aria-label": "Find a pane, an instruction, a program, a lesson or a command", spellcheck: "false", autocomplete: "off" });
  private list = make("ul", { id: "palette-list", role: "listbox", "aria-label": "Found" });
  private note = make("p", { class: "note", role: "status" });
  private dialog = make("dialog", { class: "palette", "aria-label": "Find" }, this.input, this.list, this.note);
  private all: Entry[] = [];
  private found: Entry[] = [];
  private at = 0;
  private shows = 0; // how often it was opened

  constructor(private host: { entries(): Promise<Entry[]>; choose(e: Entry): Promise<void> | void }) {
    document.body.append(this.dialog);
    this.input.addEventListener("input", () => this.fill());
    this.input.addEventListener("keydown", (e) => this.key(e));
    this.dialog.addEventListener("click", (e) => { if (e.target === this.dialog) this.dialog.close(); });
  }

  // show opens it over all entries, or over those of a kind.
  async show(kind = "") {
    if (this.dialog.open) return;
    this.input.placeholder = kind || "pane, instruction, program, lesson, command";
    const mine = ++this.shows;
    this.all = [];
    this.input.value = "";
    this.fill();
    this.dialog.showModal();
    this.input.focus();
    try {
      const all = await this.host.entries();
      if (mine !== this.shows) return;
      this.all = all.filter((e) => !kind || e.kind === kind);
      this.fill();
    } catch (e) {
      this.note.textContent = (e as Error).message;
    }
  }

  private fill() {
    const words = this.input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found: [number, Entry][] = [];
    for (const e of this.all) {
      const s = score(e.title + " " + e.kind, words);
      if (s >= 0) found.push([s, e]);
    }
    if (words.length) found.sort((a, b) => a[0] - b[0]);
    this.found = found.slice(0, maxShown).map(([, e]) => e);
    this.note.textContent = found.length > maxShown ? "and " + (found.length - maxShown) + " more" : found.length || !this.all.length ? "" : "nothing fits";
    this.select(0);
  }

  private select(i: number) {
    this.at = Math.max(0, Math.min(i, this.found.length - 1));
    render(this.found.map((e, i) => html`<li role="option" id=${"palette-" + i} aria-selected=${i === this.at} @click=${() => this.choose(i)}><span>${e.title}</span><small>${e.kind}</small></li>`), this.list);
    const li = this.list.children[this.at];
    li?.scrollIntoView({ block: "nearest" });
    if (li) this.input.setAttribute("aria-activedescendant", li.id);
    else this.input.removeAttribute("aria-activedescendant");
  }

  private key(e: KeyboardEvent) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[e.key];
    if (step) this.select(this.at + step);
    else if (e.key === "Enter") this.choose(this.at);
    else return;
    e.preventDefault();
  }

  private async choose(i: number) {
    const e = this.found[i];
    if (!e) return;
    this.dialog.close();
    try {
      await this.host.choose(e);
    } catch (err) {
      announce((err as Error).message);
    }
  }
}
