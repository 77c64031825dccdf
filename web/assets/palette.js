// The command palette, the list of keys and the choice of colours.

import { make, announce } from "./socket.js";

// score is how well words fit a title: -1 not at all, else smaller is better. The
// letters of each word must come in order; at best the word stands there whole.
export function score(title, words) {
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

// Palette is a dialog with a field and the entries that fit it. host.entries gives
// {title, kind, …}, host.choose takes one.
export class Palette {
  constructor(host) {
    this.host = host;
    this.input = make("input", { type: "text", role: "combobox", "aria-expanded": "true", "aria-controls": "palette-list", "aria-label": "Find a pane, an instruction, a program, a lesson or a command", placeholder: "pane, instruction, program, lesson, command", spellcheck: "false", autocomplete: "off" });
    this.list = make("ul", { id: "palette-list", role: "listbox", "aria-label": "Found" });
    this.note = make("p", { class: "note", role: "status" });
    this.dialog = make("dialog", { class: "palette", "aria-label": "Find" }, this.input, this.list, this.note);
    document.body.append(this.dialog);
    this.input.addEventListener("input", () => this.fill());
    this.input.addEventListener("keydown", (e) => this.key(e));
    this.dialog.addEventListener("click", (e) => { if (e.target === this.dialog) this.dialog.close(); });
  }

  async show() {
    if (this.dialog.open) return;
    this.all = [];
    this.input.value = "";
    this.fill();
    this.dialog.showModal();
    this.input.focus();
    try {
      this.all = await this.host.entries();
      this.fill();
    } catch (e) {
      this.note.textContent = e.message;
    }
  }

  fill() {
    const words = this.input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = [];
    for (const e of this.all) {
      const s = score(e.title + " " + e.kind, words);
      if (s >= 0) found.push([s, e]);
    }
    if (words.length) found.sort((a, b) => a[0] - b[0]);
    this.found = found.slice(0, maxShown).map(([, e]) => e);
    this.list.replaceChildren(...this.found.map((e, i) => {
      const li = make("li", { role: "option", id: "palette-" + i, "aria-selected": "false" }, make("span", {}, e.title), make("small", {}, e.kind));
      li.addEventListener("click", () => this.choose(i));
      return li;
    }));
    this.note.textContent = found.length > maxShown ? "and " + (found.length - maxShown) + " more" : found.length || !this.all.length ? "" : "nothing fits";
    this.select(0);
  }

  select(i) {
    this.list.children[this.at]?.setAttribute("aria-selected", "false");
    this.at = Math.max(0, Math.min(i, this.found.length - 1));
    const li = this.list.children[this.at];
    li?.setAttribute("aria-selected", "true");
    li?.scrollIntoView({ block: "nearest" });
    if (li) this.input.setAttribute("aria-activedescendant", li.id);
    else this.input.removeAttribute("aria-activedescendant");
  }

  key(e) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[e.key];
    if (step) this.select(this.at + step);
    else if (e.key === "Enter") this.choose(this.at);
    else return;
    e.preventDefault();
  }

  async choose(i) {
    const e = this.found[i];
    if (!e) return;
    this.dialog.close();
    try {
      await this.host.choose(e);
    } catch (err) {
      announce(err.message);
    }
  }
}

const keys = [
  ["Ctrl K", "find a pane, an instruction, a program, a lesson, a command"],
  ["?", "these keys"],
  ["Tab", "from field to field and picture to picture"],
  ["← → ↑ ↓", "in a picture: from cell to cell"],
  ["Home, End", "in a picture: to the ends of a row"],
  ["Enter", "in a picture: choose or pin a cell"],
  ["Esc", "let go of a pinned cell, close a window"],
  ["Alt ←, Alt →", "undo and redo: the browser's back and forward"],
];

let help = null;

export function showHelp() {
  if (!help) {
    const done = make("button", { class: "quiet", type: "button" }, "Close");
    help = make("dialog", { class: "help", "aria-labelledby": "help-title" }, make("h2", { id: "help-title" }, "Keys"),
      make("dl", {}, ...keys.flatMap(([k, what]) => [make("dt", {}, make("kbd", {}, k)), make("dd", {}, what)])),
      make("p", {}, "Nothing needs to be run: pictures follow what you type. The address holds all that you see; send it, keep it, or go back in it. A link never runs cells, a device or reads files."), done);
    done.addEventListener("click", () => help.close());
    document.body.append(help);
  }
  if (!help.open) help.showModal();
}

// theme sets the colours of the page: "light", "dark", "contrast", or "" for the system's.
export function theme(name) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
  try {
    if (name) localStorage.setItem("tilus-theme", name);
    else localStorage.removeItem("tilus-theme");
  } catch {
    // Without storage the choice holds until the page is closed.
  }
  announce(name ? name + " colours" : "the system's colours");
}
