// A pane: a form made from the parameters of its row, pictures, and a sentence. All
// layout arithmetic is done in Go; this only draws forms and shows what comes back.

import { html, nothing, render } from "lit-html";
import { announce, make, prefix } from "./dom";
import { encode, query } from "./address";
import { Field } from "./field";
import { caret, factor, first, redrawn } from "./link";
import { copyAs } from "./share";
import { Picture } from "./picture";
import { Failure } from "./socket";
import { books, narrow, sheet, type Desk } from "./state";
import type { Copy, Item, Param, Problem, Result, Row, Term, Values } from "./wire";

let made = 0;

// lesson leads to the lesson about a pane, where there is one.
function lesson(row: Row) {
  const name = row.lesson && books.value.find((n) => n.startsWith(row.lesson!));
  return name ? make("a", { class: "lesson", href: prefix + "nb/" + encodeURIComponent(name.replace(/\.ipynb$/, "")) }, "Lesson " + Number(row.lesson)) : null;
}

// chosen is a parameter's value; of a choice by its own name.
function chosen(p: Param, values: Values) {
  const value = values[p.name] ?? p.default;
  return p.also?.[value] ?? value;
}

export class View {
  readonly id = "view" + ++made;
  readonly values: Values = {};
  readonly root: HTMLElement;
  readonly fieldset = make("div", { class: "fields fold" });
  readonly figures = make("div", { class: "pictures" });
  pictures: Picture[] = [];
  private fields = new Map<string, Field>();
  private heading = make("h2", { id: this.id + "-title" });
  private tools = make("span", { class: "tools", id: this.id + "-tools", popover: "auto" });
  private more = make("button", { class: "quiet more", type: "button", "aria-expanded": "false", onclick: () => this.unfold(this.fieldset.classList.contains("fold")) });
  private errors = make("div", { class: "errors", role: "alert", hidden: true });
  private say = make("p", { class: "say", onclick: () => this.say.classList.toggle("whole") });
  private text: HTMLElement;
  private sentence: string | undefined;
  private example = false; // the pictures are the pane's own, not those of the values
  private drawing: AbortController | null = null;
  private nth = 1;
  private following = false; // an element was just chosen
  private told = ""; // the element whose factors are told
  private telling: AbortController | null = null;
  private leading: AbortController | null = null; // the question where the factor under the caret leads to

  constructor(readonly row: Row, values: Values, private desk: Desk) {
    for (const p of row.params) {
      this.values[p.name] = chosen(p, values);
      if (p.kind === "sheet") continue; // the page's own colours say it, where the address does not
      const f = new Field(p, { socket: desk.socket, anything: row.name === "see", changed: (f, commit) => this.changed(f, commit), line: (_, n) => caret(this, n), caret: (f, at) => this.caret(f, at), go: (values) => this.go(values) }, this.id + "-" + p.name, this.values[p.name]);
      this.fields.set(p.name, f);
      this.fieldset.append(f.root);
      if (this.fields.size === 1) this.fieldset.append(this.more);
    }
    this.fill();
    this.parts();
    const folded = row.params.filter((p, i) => i > 0 && p.kind !== "sheet" && !p.play && !p.soon);
    this.more.hidden = folded.length === 0;
    this.more.textContent = folded.filter((p) => narrow.value || p.later).map((p) => p.title).join(", ") + " …";
    if (folded.some((p) => p.later)) this.more.classList.add("later");
    if (folded.some((p) => p.later && this.values[p.name] !== p.default)) this.unfold(true);
    this.text = make("pre", { hidden: true, tabindex: "0", "aria-label": row.title + " as text" });
    this.root = make("section", { class: "pane", "data-pane": row.name, "aria-labelledby": this.heading.id, id: this.id },
      make("header", {}, this.heading, make("p", {}, row.doc, lesson(row)), make("button", { class: "quiet dots", type: "button", popovertarget: this.tools.id, "aria-label": "More: " + row.title }, "⋯"), this.tools),
      this.fieldset, this.errors, this.say, this.figures, this.text);
    this.root.addEventListener("keydown", (e) => this.key(e));
    this.place(values);
  }

  // name is what a person called the pane, or what it is; title tells panes of one name apart.
  get name() {
    return this.values._name || this.row.title;
  }

  get title() {
    return this.nth > 1 ? this.name + " (" + this.nth + ")" : this.name;
  }

  // count says that the pane is the nth of its name.
  count(nth: number) {
    if (this.nth === nth) return;
    this.nth = nth;
    this.place(this.values);
  }

  // place takes what the page itself keeps of a pane: its name and its width.
  place(values: Values) {
    for (const name of ["_name", "_half"]) {
      if (values[name]) this.values[name] = values[name].slice(0, 80);
      else delete this.values[name];
    }
    this.heading.textContent = this.title;
    this.root.classList.toggle("half", this.half);
    const tool = (name: string, what: string, act: () => void) => html`<button class="tool" type="button" title=${what} aria-label=${what + ": " + this.title} @click=${act}>${name}</button>`;
    render([
      tool("rename", "Rename", () => this.rename()),
      this.half ? tool("widen", "Widen", () => { this.place({ ...this.values, _half: "" }); this.desk.wrote(true); }) : tool("split", "Split", () => this.desk.split(this)),
      tool("copy as", "Copy as", () => copyAs(this)),
      tool("duplicate", "Duplicate", () => this.desk.open(this.row.name, { ...this.values, _name: "" }, this)),
      tool("close", "Close", () => this.desk.close(this)),
    ], this.tools);
  }

  get half() {
    return this.values._half === "1";
  }

  // rename asks for a name in the place of the title.
  rename() {
    const input = make("input", { type: "text", class: "name", "aria-label": "Name of the pane", maxlength: "80" });
    input.value = this.name;
    let done = false;
    const end = (take: boolean) => {
      if (done) return;
      done = true;
      input.replaceWith(this.heading);
      if (!take) return;
      const name = input.value.trim();
      this.place({ ...this.values, _name: name === this.row.title ? "" : name });
      this.desk.wrote(true);
      announce("the pane is called " + this.title);
    };
    input.addEventListener("keydown", (e) => {
      if (e.key !== "Enter" && e.key !== "Escape") return;
      e.preventDefault();
      e.stopPropagation();
      end(e.key === "Enter");
      this.tools.querySelector("button")?.focus();
    });
    input.addEventListener("blur", () => end(true));
    this.heading.replaceWith(input);
    input.select();
    input.focus();
  }

  // focus goes to the first thing that a person can change.
  focus() {
    const first = this.fields.values().next().value;
    if (first?.text) first.text.focus();
    else this.root.querySelector<HTMLElement>("input, select, textarea, button")?.focus({ preventScroll: true });
  }

  // unfold shows the fields that a small screen leaves out at first, or hides them.
  private unfold(open: boolean) {
    this.fieldset.classList.toggle("fold", !open);
    this.more.setAttribute("aria-expanded", String(open));
  }

  dispose() {
    this.drawing?.abort();
    this.drawing = null;
    for (const f of this.fields.values()) f.dispose();
  }

  // fill shows a chosen text in the field that it is read instead of; that field's own value stays.
  private fill() {
    for (const p of this.row.params) {
      const f = p.fills && this.fields.get(p.fills);
      if (f) f.value = p.texts![this.values[p.name]] ?? this.values[f.p.name];
    }
  }

  // parts has the fields rest that play no part in what is shown.
  private parts() {
    for (const f of this.fields.values()) f.idle(this.rests(f.p));
  }

  // rests says whether a parameter stands beside something else than what is chosen, by a choice that does not rest itself.
  private rests(p: Param): boolean {
    return Object.entries(p.beside ?? {}).some(([name, values]) => !values.includes(this.values[name]) && !this.rests(this.row.params.find((x) => x.name === name)!));
  }

  private changed(f: Field, commit: boolean) {
    // Who edits a chosen text writes one of their own.
    const chosen = this.row.params.find((p) => p.fills === f.p.name && this.values[p.name] in p.texts!);
    if (chosen) this.fields.get(chosen.name)!.value = this.values[chosen.name] = chosen.default;
    this.values[f.p.name] = f.value;
    if (f.p.fills) this.fill();
    this.parts();
    if (commit) this.showBindings();
    this.clearMarks();
    this.draw();
    this.desk.wrote(commit);
  }

  // key moves time and views where no text is being written.
  private key(e: KeyboardEvent) {
    if (e.ctrlKey || e.metaKey || e.altKey || (e.target as HTMLElement).closest("input[type=text], textarea, select, [contenteditable=true]")) return;
    const all = [...this.fields.values()];
    const time = all.find((f) => f.p.play && !f.root.inert);
    const choice = all.find((f) => f.p.kind === "choice" && f.p.name === "v");
    const f = e.key === "," || e.key === "." ? time : e.key === "[" || e.key === "]" ? choice : undefined;
    if (!f) return;
    e.preventDefault();
    f.nudge(e.key === "," || e.key === "[" ? -1 : 1);
    announce(f.p.title + " " + f.value);
  }

  showBindings() {
    for (const f of this.fields.values()) f.showBindings();
  }

  set(values: Values) {
    for (const p of this.row.params) this.values[p.name] = chosen(p, values);
    for (const [name, f] of this.fields) f.value = this.values[name];
    this.fill();
    this.parts();
    this.place(values);
    this.showBindings();
    this.clearMarks();
    this.draw();
  }

  // go takes what choosing an element changes.
  go(values: Values) {
    this.following = Boolean(values.el);
    this.set({ ...this.values, ...values });
    this.desk.wrote(true);
  }

  get bound() {
    return Object.values(this.values).some((v) => v.startsWith("$"));
  }

  // lightLine lights a line of the program's text; 0 for none.
  lightLine(line: number) {
    this.fields.get("src")?.text?.light(line);
  }

  // terms says in the layout's field what its factors add to an element; null ends it.
  terms(item: Item | null) {
    const f = [...this.fields.values()].find((f) => f.p.kind === "layout");
    const wanted = f && item && item[7] >= 0 && item[8] !== undefined ? item[7] + "," + item[8] : "";
    if (!f || wanted === this.told) return;
    this.told = wanted;
    this.telling?.abort(); // only the newest counts
    if (!wanted) return f.terms([]);
    this.telling = new AbortController();
    this.ask(f, item![7], item![8]!, 0, this.telling).then((r) => { if (r && this.told === wanted) f.terms(r.terms); });
  }

  // caret lights what the factor under the caret leads to.
  private async caret(f: Field, at: number) {
    const [thread, slot] = first(this);
    this.leading?.abort();
    if (at < 0) return factor(this, null);
    const mine = (this.leading = new AbortController());
    const all = await this.ask(f, thread, slot, 0, mine);
    const n = all?.terms.findIndex((t) => at >= t.from && at <= t.to) ?? -1;
    const r = n < 0 || mine.signal.aborted ? null : await this.ask(f, thread, slot, n + 1, mine);
    if (mine.signal.aborted) return; // the caret has gone on
    factor(this, r?.members ?? null);
    if (r?.members) announce("factor " + (n + 1) + " leads to " + r.members.length + " cells");
  }

  private async ask(f: Field, thread: number, slot: number, term: number, stop: AbortController): Promise<{ terms: Term[]; members?: [number, number][] } | undefined> {
    if (f.value.startsWith("$") || !this.desk.socket.ready) return undefined;
    try {
      return await this.desk.socket.ask("terms", { layout: f.value, thread, slot, term }, undefined, stop.signal);
    } catch {
      return undefined; // the element is of an older picture
    }
  }

  // tell says what is pointed at, or the pane's own sentence. The pictures below stay where they are under the pointer:
  // what is pointed at is given no fewer lines than the sentence has.
  tell(text: string | null) {
    if (text === null) this.say.style.minHeight = "";
    else if (!this.say.style.minHeight) this.say.style.minHeight = this.say.offsetHeight + "px";
    this.say.textContent = text ?? this.sentence ?? "";
  }

  // draw asks for the pictures; a newer call takes the place of an older one, whose answer may come after its own.
  async draw() {
    if (!this.desk.socket.ready) return; // it is drawn when the connection is there
    const begin = performance.now();
    const mine = (this.drawing = new AbortController());
    const late = setTimeout(() => { if (this.drawing === mine) this.root.classList.add("stale"); }, 400);
    try {
      const r: Result | undefined = await this.desk.socket.ask("render", { view: this.id, pane: this.row.name, values: this.sent }, undefined, mine.signal);
      if (!r || this.drawing !== mine) return;
      this.clearMarks();
      this.result(r);
      this.root.dataset.ms = String(Math.round(performance.now() - begin));
    } catch (e) {
      if (!(e instanceof Failure)) throw e;
      if (this.drawing !== mine) return;
      if (!this.pictures.length && this.sentence === undefined) await this.fallback(mine);
      if (this.drawing === mine) this.problems(e.problems);
    } finally {
      clearTimeout(late);
      if (this.drawing === mine) this.root.classList.remove("stale");
    }
  }

  // sent are the values of parameters, without what is the page's own.
  get sent(): Values {
    return Object.fromEntries(this.row.params.map((p) => [p.name, this.values[p.name] || (p.kind === "sheet" ? sheet.value : "")]));
  }

  // copies asks for all ways of writing what the pane shows.
  async copies(): Promise<Copy[]> {
    const r = await this.desk.socket.ask("copy", { view: "", pane: this.row.name, values: this.sent });
    return r?.forms ?? [];
  }

  // fallback shows the pane's own example when an address begins with an error.
  private async fallback(mine: AbortController) {
    try {
      const r: Result | undefined = await this.desk.socket.ask("render", { view: this.id + "-example", pane: this.row.name, values: { th: sheet.value } });
      if (!r || this.drawing !== mine) return;
      this.result(r);
      this.example = true;
    } catch {
      // The problem that is about to be shown says enough.
    }
  }

  // ---- errors: the last good picture stays --------------------------------

  private clearMarks() {
    this.errors.hidden = true;
    for (const f of this.fields.values()) f.problems([]);
  }

  private problems(list: Problem[]) {
    for (const [name, f] of this.fields) f.problems(list.filter((p) => p.param === name));
    if (list.some((p) => p.param && p.param !== this.row.params[0].name)) this.unfold(true);
    const where = (p: Problem) => {
      const f = this.fields.get(p.param ?? "");
      if (!f || !p.line || f.bound) return "";
      return f.p.kind === "program" ? "line " + p.line + ", column " + p.col + ": " : "column " + p.col + ": ";
    };
    render(list.map((p) => html`<p><span class="where">${where(p)}</span>${p.msg} ${p.code ? html`<code>[${p.code}]</code>` : nothing}</p>${p.help ? html`<p class="help">${p.help}</p>` : nothing}`).concat(this.example ? html`<p class="help">Below is this pane's own example.</p>` : []), this.errors);
    this.errors.hidden = false;
  }

  // ---- pictures -------------------------------------------------------------

  private result(r: Result) {
    this.sentence = r.sentence;
    this.example = false;
    this.text.hidden = !r.text;
    this.text.textContent = r.text;
    const focused = this.pictures.find((p) => p.canvas === document.activeElement)?.name;
    const kept = this.pictures;
    this.pictures = r.pictures.map((p, i) => new Picture(this, p, kept.find((k) => k.name === p.name) ?? (kept.length === r.pictures.length ? kept[i] : undefined)));
    this.figures.replaceChildren(...this.pictures.map((p) => p.figure));
    // Two that are alike, before and after, stand beside each other; what is a little too wide is made to fit.
    const [a, b] = this.pictures, room = this.figures.clientWidth - 30;
    if (this.pictures.length === 2 && !kept.length && a.width === b.width && 2 * a.width > room && room >= 1.4 * a.width) for (const p of [a, b]) p.size(room / (2 * a.width), false);
    else for (const p of this.pictures) {
      const fits = (room + 24) / p.width;
      if (!kept.some((k) => k.name === p.name) && fits < 1 && fits > (p.name === "way" ? 0.5 : 0.78) && !p.tall) p.size(fits, false);
    }
    if (focused !== undefined) (this.pictures.find((p) => p.name === focused) ?? this.pictures[0])?.canvas.focus({ preventScroll: true });
    const address = prefix + "svg" + query([{ row: this.row, values: this.sent }]);
    for (const p of this.pictures) p.link(address + (p.name ? "&name=" + encode(p.name) : ""));
    redrawn(this);
    if (this.following) this.pictures.find((p) => p.name === "way")?.figure.scrollIntoView({ block: "nearest" });
    this.following = false;
  }
}
