// One parameter of a pane: a list, a slider, or a text, which may be bound to a variable
// of a running notebook.

import { make } from "./dom";
import { assist } from "./assist";
import { sessions, variable } from "./state";
import { TextBox } from "./textbox";
import type { Socket } from "./socket";
import type { Param, Problem, Term, Values } from "./wire";

export interface FieldHost {
  socket: Socket;
  anything: boolean; // the field takes variables of every form
  changed(f: Field, commit: boolean): void;
  line(f: Field, n: number): void; // the caret came to a line
  caret(f: Field, at: number): void; // the caret of a layout came behind a character; -1 when it left
  go(values: Values): void; // sets several values
}

export class Field {
  readonly root: HTMLElement;
  readonly text: TextBox | null = null;
  private input: HTMLInputElement | HTMLSelectElement | null = null;
  private output: HTMLOutputElement | null = null;
  private chip: HTMLElement | null = null;
  private bind: HTMLSelectElement | null = null;

  private said = make("span", { class: "terms" });

  constructor(readonly p: Param, private host: FieldHost, id: string, value: string) {
    const changed = (commit: boolean) => {
      if (this.output) this.output.textContent = this.value;
      host.changed(this, commit);
    };
    const label = make("label", { for: id, id: id + "-label", title: p.doc }, p.title);
    this.root = make("div", { class: "field " + p.kind + (p.play || p.soon ? " soon" : "") + (p.later ? " later" : "") }, p.kind === "layout" ? make("div", { class: "head" }, label, this.said) : label);
    if (p.kind === "choice" || p.kind === "slider") {
      if (p.kind === "choice") {
        this.input = make("select", { id }, ...p.choices!.map((c) => make("option", {}, c)));
        this.root.append(this.input);
      } else {
        this.input = make("input", { id, type: "range", min: p.min, max: p.max, step: 1 });
        this.output = make("output", { for: id });
        this.root.append(make("div", { class: "range" }, this.input, this.output, p.play ? this.player(this.input) : null));
      }
      this.input.value = value;
      if (this.output) this.output.textContent = value;
      this.input.addEventListener("input", () => changed(false));
      this.input.addEventListener("change", () => changed(true));
      return;
    }
    const program = p.kind === "program";
    this.text = new TextBox({
      id, label: label.id, doc: p.doc, hint: p.hint, lines: program, language: program ? "tile" : p.kind as "layout" | "text", rich: program, value,
      assist: p.kind === "text" ? undefined : assist(host.socket, p.kind),
      changed, line: program ? (n) => host.line(this, n) : undefined,
      caret: p.kind === "layout" ? (at) => host.caret(this, at) : undefined,
    });
    label.addEventListener("click", () => this.text!.focus());
    this.room(value);
    this.root.append(this.text.root);
    if (p.kind !== "text") {
      this.chip = make("div", { class: "chip", hidden: true });
      this.root.append(this.chip);
      this.bind = make("select", { "aria-label": p.title + ": take from a notebook", hidden: true });
      this.bind.addEventListener("change", () => {
        this.value = this.bind!.value || p.default;
        changed(true);
      });
      this.root.append(this.bind);
    }
    this.showBindings();
  }

  // idle has the field take no input, where it plays no part.
  idle(is: boolean) {
    this.root.inert = is;
    this.root.classList.toggle("idle", is);
  }

  get value() {
    return this.text ? this.text.value : this.input!.value;
  }

  set value(v: string) {
    if (this.text) {
      this.text.value = v;
      this.room(v);
    } else if (this.input!.value !== v) this.input!.value = v;
    if (this.output) this.output.textContent = v;
  }

  // room makes a text of one line as wide as what it shows; it keeps its width while a person writes.
  private room(v: string) {
    if (this.p.kind === "text") this.text!.width(Math.min(48, Math.max(12, (this.p.default || this.p.hint || "").length + 2, v.length + 2)));
  }

  // terms tells what each factor of a layout adds to an element.
  terms(list: Term[]) {
    this.said.textContent = list.map((t) => t.text).join(" · ");
    this.said.title = list.map((t) => this.value.slice(t.from, t.to) + " " + t.text).join(" · ");
    this.text?.shade(list.filter((t) => t.moves).map((t) => [t.from, t.to]));
  }

  // nudge moves a slider by a step, or a list to its next choice.
  nudge(by: number) {
    if (this.input instanceof HTMLSelectElement) this.input.selectedIndex = (this.input.selectedIndex + by + this.input.options.length) % this.input.options.length;
    else if (this.input) this.input.value = String(Number(this.input.value) + by);
    this.input?.dispatchEvent(new Event("input"));
    this.input?.dispatchEvent(new Event("change"));
  }

  dispose() {
    this.text?.dispose();
  }

  // problems marks what is wrong; those without a line only mark the field.
  problems(list: Problem[]) {
    if (this.text) this.text.problems(list.filter((p) => p.line), list.length > 0);
    else if (list.length) this.input!.setAttribute("aria-invalid", "true");
    else this.input!.removeAttribute("aria-invalid");
  }

  // bound says whether the field shows a variable's name in the place of its text.
  get bound() {
    return this.chip !== null && !this.chip.hidden;
  }

  // player is a button that moves a slider on, from its end back to its beginning,
  // until it is pressed again or the slider is moved.
  private player(input: HTMLInputElement) {
    const p = this.p;
    let timer = 0;
    const b = make("button", { class: "quiet", type: "button", "aria-label": "Play " + p.title }, "▶");
    const stop = () => {
      clearInterval(timer);
      timer = 0;
      b.textContent = "▶";
      b.setAttribute("aria-label", "Play " + p.title);
    };
    b.addEventListener("click", () => {
      if (timer) return stop();
      if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
        // No motion: all moments beside each other, or the next one.
        if (p.story) this.host.go(p.story);
        else this.nudge(1);
        return;
      }
      b.textContent = "⏸";
      b.setAttribute("aria-label", "Pause " + p.title);
      const min = p.min ?? 0, max = p.max ?? 0;
      const step = Math.max(1, Math.round((max - min) / 40));
      timer = window.setInterval(() => {
        if (!b.isConnected) return stop();
        const next = +input.value + step;
        input.value = String(next > max ? min : next);
        input.dispatchEvent(new Event("input"));
      }, 700);
    });
    input.addEventListener("pointerdown", stop);
    input.addEventListener("keydown", stop);
    return b;
  }

  // showBindings lists the variables of running notebooks that fit, and names the one
  // that the field is bound to.
  showBindings() {
    if (this.chip) this.showChip(this.chip);
    if (!this.bind) return;
    const fit: [string, string][] = [];
    for (const s of sessions.value) for (const v of s.vars) {
      if (v.text && (v.form === this.p.kind || this.host.anything)) fit.push(["$" + v.name + "@" + s.session, v.name + " in " + (s.title || s.session).split("/").pop()]);
    }
    this.bind.hidden = fit.length === 0 || this.bound;
    this.bind.replaceChildren(make("option", { value: "" }, "from a notebook …"), ...fit.map(([value, name]) => make("option", { value }, name)));
    this.bind.value = fit.some(([value]) => value === this.value) ? this.value : "";
  }

  // showChip puts "L in live.ipynb" in the place of a field that is bound; the
  // address keeps the session's full name.
  private showChip(chip: HTMLElement) {
    const text = this.text!;
    if (!text.value.startsWith("$") || text.focused) {
      chip.hidden = true;
      text.root.hidden = false;
      return;
    }
    const v = variable(text.value);
    const where = v.session ? (v.session.title || v.session.session).split("/").pop() : "a notebook that does not run";
    const edit = make("button", { class: "quiet", type: "button", title: "Stop following the notebook and edit the text" }, "edit");
    edit.addEventListener("click", () => {
      text.value = v.text || this.p.default;
      this.host.changed(this, true);
      text.focus();
    });
    chip.replaceChildren(make("span", { title: text.value }, make("b", {}, v.name), " in " + where), edit);
    chip.hidden = false;
    text.root.hidden = true;
  }
}
