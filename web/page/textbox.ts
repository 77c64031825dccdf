// A field for text: a plain input or text area, whose several lines become an editor
// once that is loaded. Both mark the same places, offer the same words (Ctrl+Space) and
// explain the same words (F1), and both are a text box of the same name to everyone.

import { effect } from "@preact/signals-core";
import { announce, make } from "./dom";
import { plain } from "./state";
import type { Assist, Offer } from "./assist";
import type { Editor } from "./editor";
import type { Problem } from "./wire";

export interface TextOptions {
  id?: string;
  label?: string; // id of the element that names it
  name?: string; // or its name
  doc?: string;
  hint?: string;
  lines: boolean; // several
  language: "tile" | "go" | "layout" | "text" | "markdown";
  rich: boolean; // becomes an editor
  tab?: boolean; // Tab indents; after Escape it leaves
  value: string;
  assist?: Assist;
  changed(commit: boolean): void;
  line?(n: number): void; // the caret came to a line, from 1; 0 when it left
  caret?(at: number): void; // of a field of one line: the caret came behind a character; -1 when it left
  key?(e: KeyboardEvent): boolean; // true when it was handled
}

let loading: Promise<typeof import("./editor")> | undefined;
const load = () => (loading ??= import("./editor"));

// The page says in data-editors whether editors are still to come.
let coming = 0;
function come(by: number) {
  coming += by;
  document.body.dataset.editors = coming ? "coming" : "ready";
}

// place is the index of a line and a column, from 1, in a text; columns count bytes.
export function place(text: string, line: number, col: number) {
  const lines = text.split("\n");
  let at = 0;
  for (let i = 0; i < line - 1 && i < lines.length; i++) at += lines[i].length + 1;
  const bytes = new TextEncoder().encode(lines[line - 1] ?? "").slice(0, Math.max(0, col - 1));
  return Math.min(text.length, at + new TextDecoder().decode(bytes).length);
}

// range is the part of a text that a problem is about, of one character at least.
export function range(text: string, p: Problem): [number, number] {
  const from = place(text, p.line!, p.col!);
  const to = p.endLine ? place(text, p.endLine, p.endCol!) : from + 1;
  return [from, Math.max(to, from + 1)];
}

export class TextBox {
  readonly root: HTMLElement;
  private input: HTMLInputElement | HTMLTextAreaElement;
  private mark: HTMLElement | null = null;
  private list: HTMLUListElement | null = null; // of offers
  private manual = make("div", { class: "manual", role: "note", "aria-live": "polite", hidden: true });
  private offers: Offer[] = [];
  private word = "";
  private at = -1;
  private rich: Editor | null = null;
  private marked: Problem[] = [];
  private bad = false;
  private leaving = false;

  constructor(private o: TextOptions) {
    const attrs = { id: o.id, "aria-label": o.name, placeholder: o.hint, spellcheck: "false", autocomplete: "off", autocapitalize: "off", "aria-description": o.doc, "aria-autocomplete": o.assist ? "list" : null };
    this.input = o.lines ? make("textarea", attrs) : make("input", { ...attrs, type: "text" });
    this.input.value = o.value;
    if (o.language !== "go" && o.language !== "markdown") {
      this.mark = make("div", { class: "mark", "aria-hidden": "true" });
      this.input.addEventListener("scroll", () => this.scrollMark());
      this.input.classList.add("over");
    }
    this.root = make("div", { class: "entry" }, this.mark, this.input);
    if (o.assist) this.root.append(this.manual);
    this.input.addEventListener("input", () => { this.hideOffers(); this.fit(); o.changed(false); });
    this.input.addEventListener("change", () => o.changed(true));
    this.input.addEventListener("keydown", (e) => this.key(e as KeyboardEvent));
    this.input.addEventListener("blur", () => { this.hideOffers(); o.line?.(0); o.caret?.(-1); });
    if (o.caret) for (const kind of ["keyup", "click"]) {
      this.input.addEventListener(kind, (e) => {
        if (e instanceof KeyboardEvent && !/^(Arrow|Home|End)/.test(e.key)) return; // what is being typed has no picture yet
        o.caret!(this.input.selectionStart ?? 0);
      });
    }
    if (o.line) for (const kind of ["keyup", "click", "focus"]) this.input.addEventListener(kind, () => o.line!(this.before().split("\n").length));
    this.fit();
    if (o.rich) {
      const end = effect(() => {
        const wanted = !plain.value;
        if (wanted && !this.rich) this.enrich();
        else if (!wanted && this.rich) this.impoverish();
      });
      this.dispose = () => { end(); this.rich?.destroy(); };
    }
  }

  dispose: () => void = () => {};

  // enrich puts an editor in the place of the text area.
  private async enrich() {
    come(1);
    try {
      this.replace(await load());
    } catch {
      // The text area serves.
    } finally {
      come(-1);
    }
  }

  private replace(module: typeof import("./editor")) {
    if (plain.value || this.rich) return;
    const focused = document.activeElement === this.input;
    const { selectionStart, selectionEnd } = this.input;
    this.hideOffers();
    this.rich = module.edit({
      ...this.o, value: this.input.value, select: [selectionStart ?? 0, selectionEnd ?? 0],
      changed: (commit) => { this.input.value = this.rich!.value; this.o.changed(commit); },
      explain: (html) => this.explain(html),
    });
    this.input.hidden = true;
    if (this.mark) this.mark.hidden = true;
    this.root.prepend(this.rich.dom);
    this.rich.invalid(this.bad);
    this.rich.mark(this.marked);
    if (focused) this.rich.focus();
  }

  private impoverish() {
    const focused = this.rich!.focused;
    this.rich!.destroy();
    this.rich = null;
    this.input.hidden = false;
    if (this.mark) this.mark.hidden = false;
    this.fit();
    this.underline();
    if (focused) this.input.focus();
  }

  get value() {
    return this.rich ? this.rich.value : this.input.value;
  }

  set value(text: string) {
    if (this.value === text) return;
    this.input.value = text;
    this.rich?.set(text);
    this.fit();
  }

  get focused() {
    return this.rich ? this.rich.focused : document.activeElement === this.input;
  }

  focus() {
    if (this.rich) this.rich.focus();
    else this.input.focus();
  }

  // width is how many characters a field of one line shows.
  width(n: number) {
    if (this.input instanceof HTMLInputElement) this.input.size = n;
  }

  fit() {
    if (this.input instanceof HTMLTextAreaElement) {
      const n = this.input.value.split("\n").length;
      this.input.rows = this.o.language === "go" || this.o.language === "markdown" ? Math.max(1, n) : Math.min(24, Math.max(3, n));
    }
  }

  // problems marks places; invalid says that the text is at fault, wherever.
  problems(list: Problem[], invalid: boolean) {
    this.bad = invalid;
    this.marked = list;
    if (invalid) this.input.setAttribute("aria-invalid", "true");
    else this.input.removeAttribute("aria-invalid");
    this.underline();
    this.rich?.invalid(invalid);
    this.rich?.mark(list);
  }

  // light shows a line as what is pointed at elsewhere; 0 is none.
  light(line: number) {
    if (this.rich) return this.rich.light(line);
    if (!this.mark || this.marked.length) return;
    const lines = this.input.value.split("\n");
    if (!line || line > lines.length) return this.mark.replaceChildren();
    const head = lines.slice(0, line - 1).map((s) => s + "\n").join("");
    this.mark.replaceChildren(head, make("span", { class: "lit" }, lines[line - 1] || " "));
    this.scrollMark();
  }

  // shade marks parts of a text that has no problems.
  shade(parts: [number, number][]) {
    if (!this.mark || this.marked.length || this.rich) return;
    const text = this.input.value;
    const out: (string | Node)[] = [];
    let at = 0;
    for (const [from, to] of parts) {
      out.push(text.slice(at, from), make("span", { class: "lit" }, text.slice(from, to)));
      at = to;
    }
    this.mark.replaceChildren(...(out.length ? [...out, text.slice(at)] : []));
    this.scrollMark();
  }

  private underline() {
    if (!this.mark) return;
    const parts: (string | Node)[] = [];
    const text = this.input.value;
    let at = 0;
    for (const p of this.marked) {
      const [from, to] = range(text, p);
      if (from < at) continue;
      parts.push(text.slice(at, from), make("u", {}, text.slice(from, to) || " "));
      at = to;
    }
    this.mark.replaceChildren(...(parts.length ? [...parts, text.slice(at)] : []));
    this.scrollMark();
  }

  private scrollMark() {
    if (!this.mark) return;
    this.mark.scrollLeft = this.input.scrollLeft;
    this.mark.scrollTop = this.input.scrollTop;
  }

  private before() {
    return this.input.value.slice(0, this.input.selectionStart ?? 0);
  }

  private after() {
    return this.input.value.slice(this.input.selectionStart ?? 0);
  }

  // explain shows a page of the manual under the field, "" takes it away.
  private explain(html: string) {
    this.manual.innerHTML = html; // made by goldmark without raw HTML
    this.manual.hidden = !html;
  }

  // ---- the plain field ----------------------------------------------------------

  private async key(e: KeyboardEvent) {
    const leaving = this.leaving;
    this.leaving = e.key === "Escape";
    if (this.o.key?.(e)) return;
    if (this.list && !this.list.hidden) {
      const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[e.key];
      if (step) this.choose(this.at + step);
      else if (e.key === "Enter" || e.key === "Tab") this.take(this.offers[this.at]);
      else if (e.key === "Escape") this.hideOffers();
      else return;
      e.preventDefault();
      e.stopPropagation();
    } else if (e.key === " " && e.ctrlKey && this.o.assist) {
      e.preventDefault();
      const before = this.before(), after = this.after();
      const r = await this.o.assist.complete(before, after);
      if (r && before === this.before() && after === this.after()) this.offer(r.items, r.word); // else a person has written on
    } else if (e.key === "F1" && this.o.assist) {
      e.preventDefault();
      const html = await this.o.assist.describe(this.before(), this.after());
      this.explain(html);
      if (!html) announce("nothing is known of this word");
    } else if (e.key === "Escape" && !this.manual.hidden) {
      this.explain("");
    } else if (e.key === "Tab" && !e.shiftKey && this.o.tab && !leaving) {
      e.preventDefault();
      this.input.setRangeText("\t", this.input.selectionStart!, this.input.selectionEnd!, "end");
      this.o.changed(false);
    }
  }

  private offer(items: Offer[], word: string) {
    this.offers = items;
    this.word = word;
    if (!items.length) return announce("nothing to offer here");
    const id = (this.o.id ?? "cell") + "-offers";
    if (!this.list) {
      this.list = make("ul", { class: "offers", role: "listbox", id, "aria-label": "Offers" });
      this.input.after(this.list);
    }
    this.list.replaceChildren(...items.slice(0, 200).map((x, i) => {
      const li = make("li", { role: "option", id: id + i, "aria-selected": "false" }, make("b", {}, x.text), make("small", {}, x.doc || x.kind));
      li.addEventListener("pointerdown", (e) => { e.preventDefault(); this.take(x); });
      return li;
    }));
    this.list.hidden = false;
    this.input.setAttribute("aria-controls", id);
    announce(items.length + " offers");
    this.choose(0);
  }

  private choose(i: number) {
    this.list!.children[this.at]?.setAttribute("aria-selected", "false");
    this.at = Math.max(0, Math.min(i, this.list!.children.length - 1));
    const li = this.list!.children[this.at];
    li.setAttribute("aria-selected", "true");
    li.scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", li.id);
  }

  private take(x: Offer) {
    const at = this.input.selectionStart ?? 0;
    this.input.setRangeText(x.text, at - this.word.length, at, "end");
    this.hideOffers();
    this.fit();
    this.o.changed(false);
  }

  private hideOffers() {
    if (!this.list || this.list.hidden) return;
    this.list.hidden = true;
    this.input.removeAttribute("aria-activedescendant");
    this.input.removeAttribute("aria-controls");
  }
}
