// The explorer page. A pane is a row from the server: a form made from its
// parameters, pictures and a sentence. All layout arithmetic is done in Go; this
// file only draws forms, shows SVG and lights elements that share a key.

import { Socket, make, announce, showDevices, doors, prefix } from "./socket.js";
import { Palette, showHelp, theme } from "./palette.js";

const socket = new Socket();
const content = document.getElementById("content");
let rows = [];
let sessions = [];
let views = [];
let sample = null; // the program of the Run door, with its arguments
let forms = []; // of pictures, for taking them away
let made = 0;

// ---- the address is the state -------------------------------------------

function readAddress() {
  const out = [];
  const first = {}; // values before any pane are the layout's
  for (const part of location.search.slice(1).split("&")) {
    const cut = part.indexOf("=");
    if (cut < 0) continue;
    const key = part.slice(0, cut);
    let value;
    try {
      value = decodeURIComponent(part.slice(cut + 1).replaceAll("+", " "));
    } catch {
      continue;
    }
    if (key === "p") out.push({ pane: value, values: {} });
    else (out.length ? out[out.length - 1].values : first)[key] = value;
  }
  const known = out.filter((v) => rows.some((r) => r.name === v.pane));
  if (running()) {
    if (!known.length) known.push({ pane: "program", values: {} });
    const v = known.find((v) => v.pane === "program");
    if (v) v.values.src ??= sample.program;
  }
  return known.length ? known : [{ pane: "layout", values: out.length ? {} : first }, { pane: "reinterpret", values: {} }];
}

// running reports whether the address is that of the Run door.
function running() {
  return sample && location.hash === "#run";
}

function encode(text) {
  return encodeURIComponent(text).replaceAll("%20", "+").replaceAll("%2C", ",").replaceAll("%24", "$").replaceAll("%40", "@");
}

// query is the address of views: only what differs from the defaults.
function query(list) {
  let out = "?v=1";
  for (const v of list) {
    out += "&p=" + encode(v.row.name);
    for (const p of v.row.params) if (v.values[p.name] !== p.default) out += "&" + p.name + "=" + encode(v.values[p.name]);
  }
  return out;
}

// writeAddress makes one history entry for each run of keystrokes: the first
// change after a commit adds it, the others replace it.
let editing = false;
function writeAddress(commit) {
  const now = query(views) + (document.body.classList.contains("embed") ? "&embed=1" : "") + location.hash;
  if (now.length > 8000) return;
  if (now !== location.search + location.hash) {
    if (editing) history.replaceState(null, "", now);
    else history.pushState(null, "", now);
  }
  editing = !commit;
}

window.addEventListener("popstate", () => {
  editing = false;
  show(readAddress());
});

// ---- views ----------------------------------------------------------------

class View {
  constructor(row, values) {
    this.row = row;
    this.id = "view" + ++made;
    this.values = {};
    for (const p of row.params) this.values[p.name] = values[p.name] ?? p.default;
    this.fields = new Map();
    this.pictures = [];
    this.pinned = null;
    this.build();
  }

  build() {
    const title = this.id + "-title";
    const tool = (name, what, f) => {
      const b = make("button", { class: "tool", type: "button", title: what, "aria-label": what + ": " + this.row.title }, name);
      b.addEventListener("click", f);
      return b;
    };
    this.links = make("span", { class: "tools" },
      tool("duplicate", "Duplicate", () => open(this.row.name, { ...this.values }, this)),
      tool("close", "Close", () => close(this)));
    this.fieldset = make("div", { class: "fields" });
    for (const p of this.row.params) this.fieldset.append(this.field(p));
    this.errors = make("div", { class: "errors", role: "alert", hidden: true });
    this.say = make("p", { class: "say" });
    this.figures = make("div", { class: "pictures" });
    this.text = make("pre", { hidden: true, tabindex: "0", "aria-label": this.row.title + " as text" });
    this.root = make("section", { class: "pane", "aria-labelledby": title, id: this.id },
      make("header", {}, make("h2", { id: title }, this.row.title), make("p", {}, this.row.doc), this.links),
      this.fieldset, this.errors, this.say, this.figures, this.text);
  }

  field(p) {
    const id = this.id + "-" + p.name;
    const label = make("label", { for: id, title: p.doc }, p.title);
    const box = make("div", { class: "field " + p.kind }, label);
    let input, mark, output;
    const changed = (commit) => {
      this.values[p.name] = input.value;
      if (output) output.textContent = input.value;
      if (commit) this.showBindings();
      this.clearMarks();
      this.draw();
      writeAddress(commit);
    };
    if (p.kind === "choice") {
      input = make("select", { id }, ...p.choices.map((c) => make("option", {}, c)));
      box.append(input);
    } else if (p.kind === "slider") {
      input = make("input", { id, type: "range", min: p.min, max: p.max, step: 1 });
      output = make("output", { for: id });
      box.append(make("div", { class: "range" }, input, output, p.play ? this.player(p, input) : null));
    } else {
      const attrs = { id, placeholder: p.hint, spellcheck: "false", autocomplete: "off", autocapitalize: "off", "aria-description": p.doc };
      input = p.kind === "program" ? make("textarea", attrs) : make("input", { ...attrs, type: "text" });
      mark = make("div", { class: "mark", "aria-hidden": "true" });
      input.addEventListener("scroll", () => { mark.scrollLeft = input.scrollLeft; mark.scrollTop = input.scrollTop; });
      box.append(make("div", { class: "entry" }, mark, input));
      input.style.position = "relative";
      input.style.background = "transparent";
    }
    input.value = this.values[p.name];
    if (p.kind === "text") input.size = Math.min(48, Math.max(12, (p.default || p.hint || "").length + 2));
    if (p.kind === "program") input.rows = Math.min(24, Math.max(3, input.value.split("\n").length));
    if (output) output.textContent = input.value;
    input.addEventListener("input", () => changed(false));
    input.addEventListener("change", () => changed(true));
    const chip = mark ? make("div", { class: "chip", hidden: true }) : null;
    if (chip) box.append(chip);
    const bind = p.kind === "layout" || p.kind === "program" ? make("select", { "aria-label": p.title + ": take from a notebook", hidden: true }) : null;
    if (bind) {
      box.append(bind);
      bind.addEventListener("change", () => {
        input.value = bind.value || p.default;
        changed(true);
      });
    }
    this.fields.set(p.name, { p, input, mark, chip, bind, output });
    this.showBindings();
    return box;
  }

  // player is a button that moves a slider on, from its end back to its beginning,
  // until it is pressed again or the slider is moved.
  player(p, input) {
    let timer = null;
    const b = make("button", { class: "quiet", type: "button", "aria-label": "Play " + p.title }, "▶");
    const stop = () => {
      clearInterval(timer);
      timer = null;
      b.textContent = "▶";
      b.setAttribute("aria-label", "Play " + p.title);
    };
    b.addEventListener("click", () => {
      if (timer) return stop();
      b.textContent = "⏸";
      b.setAttribute("aria-label", "Pause " + p.title);
      const step = Math.max(1, Math.round((p.max - p.min) / 40));
      timer = setInterval(() => {
        if (!b.isConnected) return stop();
        const next = +input.value + step;
        input.value = next > p.max ? p.min : next;
        input.dispatchEvent(new Event("input"));
      }, 700);
    });
    input.addEventListener("pointerdown", stop);
    input.addEventListener("keydown", stop);
    return b;
  }

  // showBindings lists the variables of running notebooks that fit a field, and
  // names the one that it is bound to.
  showBindings() {
    for (const f of this.fields.values()) {
      if (f.chip) this.showChip(f);
      if (!f.bind) continue;
      const fit = [];
      for (const s of sessions) for (const v of s.vars) {
        if (v.text && (v.form === f.p.kind || this.row.name === "see")) fit.push(["$" + v.name + "@" + s.session, v.name + " in " + (s.title || s.session).split("/").pop()]);
      }
      f.bind.hidden = fit.length === 0 || !f.chip.hidden;
      f.bind.replaceChildren(make("option", { value: "" }, "from a notebook …"), ...fit.map(([value, name]) => make("option", { value }, name)));
      f.bind.value = fit.some(([value]) => value === f.input.value) ? f.input.value : "";
    }
  }

  // showChip puts "L in live.ipynb" in the place of a field that is bound; the
  // address keeps the session's full name.
  showChip(f) {
    const entry = f.input.parentElement;
    if (!f.input.value.startsWith("$") || document.activeElement === f.input) {
      f.chip.hidden = true;
      entry.hidden = false;
      return;
    }
    const { name, session, text } = variable(f.input.value);
    const where = session ? (session.title || session.session).split("/").pop() : "a notebook that does not run";
    const edit = make("button", { class: "quiet", type: "button", title: "Stop following the notebook and edit the text" }, "edit");
    edit.addEventListener("click", () => {
      f.input.value = text || f.p.default;
      f.input.dispatchEvent(new Event("change"));
      f.input.focus();
    });
    f.chip.replaceChildren(make("span", { title: f.input.value }, make("b", {}, name), " in " + where), edit);
    f.chip.hidden = false;
    entry.hidden = true;
  }

  set(values) {
    for (const [name, f] of this.fields) {
      const value = values[name] ?? f.p.default;
      if (f.input.value !== value) f.input.value = value;
      if (f.output) f.output.textContent = value;
      this.values[name] = value;
    }
    this.showBindings();
    this.clearMarks();
    this.draw();
  }

  get bound() {
    return Object.values(this.values).some((v) => v.startsWith("$"));
  }

  // draw asks for the pictures; a newer call takes the place of an older one.
  async draw() {
    if (!socket.ready) return;
    const begin = performance.now();
    const late = setTimeout(() => this.root.classList.add("stale"), 400);
    try {
      const r = await socket.ask("render", { view: this.id, pane: this.row.name, values: this.values });
      if (!r) return;
      this.clearMarks();
      this.result(r);
      this.root.dataset.ms = Math.round(performance.now() - begin);
    } catch (e) {
      if (!e.problems) throw e;
      if (!this.pictures.length && this.sentence === undefined) await this.fallback();
      this.problems(e.problems);
    } finally {
      clearTimeout(late);
      this.root.classList.remove("stale");
    }
  }

  // fallback shows the pane's own example when an address begins with an error.
  async fallback() {
    try {
      const r = await socket.ask("render", { view: this.id + "-example", pane: this.row.name, values: {} });
      if (r) this.result(r);
    } catch {
      // The problem that is about to be shown says enough.
    }
  }

  // ---- errors: the last good picture stays --------------------------------

  clearMarks() {
    this.errors.hidden = true;
    this.errors.replaceChildren();
    for (const f of this.fields.values()) {
      f.input.removeAttribute("aria-invalid");
      if (f.mark) f.mark.replaceChildren();
    }
  }

  problems(list) {
    this.clearMarks();
    const lines = [];
    for (const p of list) {
      const f = this.fields.get(p.param);
      if (f) {
        f.input.setAttribute("aria-invalid", "true");
        if (f.mark) this.underline(f, p);
      }
      const where = p.param && p.line && f?.chip?.hidden !== false ? (f?.p.kind === "program" ? "line " + p.line + ", column " + p.col : "column " + p.col) + ": " : "";
      const line = make("p", {}, make("span", { class: "where" }, where), p.msg + " ", p.code ? make("code", {}, "[" + p.code + "]") : null);
      lines.push(line);
      if (p.help) lines.push(make("p", { class: "help" }, p.help));
    }
    this.errors.replaceChildren(...lines);
    this.errors.hidden = false;
  }

  // underline marks the characters of a problem; its columns count bytes.
  underline(f, p) {
    if (!p.line || f.mark.childNodes.length) return;
    const lines = f.input.value.split("\n");
    const place = (line, col) => {
      let at = 0;
      for (let i = 0; i < line - 1 && i < lines.length; i++) at += lines[i].length + 1;
      const text = lines[line - 1] ?? "";
      const bytes = new TextEncoder().encode(text).slice(0, Math.max(0, col - 1));
      return at + new TextDecoder().decode(bytes).length;
    };
    const from = place(p.line, p.col);
    let to = p.endLine ? place(p.endLine, p.endCol) : from + 1;
    if (to <= from) to = from + 1;
    const text = f.input.value;
    f.mark.replaceChildren(text.slice(0, from), make("u", {}, text.slice(from, to) || " "), text.slice(to));
    f.mark.scrollLeft = f.input.scrollLeft;
    f.mark.scrollTop = f.input.scrollTop;
  }

  // ---- pictures -------------------------------------------------------------

  result(r) {
    this.sentence = r.sentence;
    this.say.textContent = r.sentence;
    this.text.hidden = !r.text;
    this.text.textContent = r.text;
    const focused = this.pictures.findIndex((p) => p.canvas === document.activeElement);
    const kept = this.pictures;
    this.pictures = r.pictures.map((p, i) => new Picture(this, p, kept[i]));
    this.figures.replaceChildren(...this.pictures.map((p) => p.figure));
    if (focused >= 0 && this.pictures[focused]) this.pictures[focused].canvas.focus({ preventScroll: true });
    this.byKey = new Map();
    this.pictures.forEach((p, i) => p.ids.forEach((e, j) => {
      for (const k of e[5]) {
        let list = this.byKey.get(k);
        if (!list) this.byKey.set(k, list = []);
        list.push([i, j]);
      }
    }));
    const svg = (name) => prefix + "svg" + query([this]) + (name ? "&name=" + encode(name) : "");
    this.pictures.forEach((p) => p.link(svg(p.name)));
    if (this.pinned) {
      const [i, id] = this.pinned;
      const j = this.pictures[i]?.ids.findIndex((e) => e[0] === id) ?? -1;
      if (j >= 0) this.light(i, j, false);
      else this.pinned = null;
    }
  }

  // light shows one element, and all that share a key with it, everywhere.
  light(i, j, aloud) {
    const chosen = this.pictures[i].ids[j];
    const hits = this.pictures.map(() => new Set());
    for (const k of chosen[5]) for (const [a, b] of this.byKey.get(k) ?? []) hits[a].add(b);
    let n = 0;
    this.pictures.forEach((p, a) => {
      p.paint([...hits[a]].map((b) => p.ids[b]), a === i ? chosen : null, kin(p, chosen));
      n += hits[a].size;
    });
    // In other panes: the same thread, and the same element of a pane of the same kind.
    for (const v of views) {
      if (v === this) continue;
      for (const p of v.pictures) {
        const same = v.row === this.row && p.name === this.pictures[i].name ? p.ids.filter((c) => c[0] === chosen[0]) : [];
        p.paint(same, null, kin(p, chosen));
        n += same.length;
      }
    }
    this.say.textContent = upper(chosen[6]) + ".";
    if (aloud) announce(chosen[6] + "; " + n + " cells lit");
  }

  dark() {
    if (this.pinned) {
      const [i, id] = this.pinned;
      const j = this.pictures[i]?.ids.findIndex((e) => e[0] === id) ?? -1;
      if (j >= 0) return this.light(i, j, false);
      this.pinned = null;
    }
    for (const p of this.pictures) p.paint([], null, []);
    this.say.textContent = this.sentence ?? "";
    for (const v of views) {
      if (v === this) continue;
      for (const p of v.pictures) p.paint([], null, []);
      if (v.pinned) v.dark(); // what was pinned there stays
    }
  }
}

// kin are the elements of a picture that the thread of another holds.
function kin(p, chosen) {
  return chosen[7] < 0 ? [] : p.ids.filter((c) => c[7] === chosen[7]);
}

function upper(s) {
  return s.charAt(0).toUpperCase() + s.slice(1);
}

const svgNS = "http://www.w3.org/2000/svg";
const fonts = getComputedStyle(document.documentElement).getPropertyValue("--mono");

// drawTexts is a canvas with the texts of a large picture, over its SVG. Those
// before right and bottom come at once, the others after the page is painted.
function drawTexts(p, right, bottom) {
  const scale = Math.min(window.devicePixelRatio || 1, 2);
  const canvas = make("canvas", { class: "texts", width: Math.round(p.width * scale), height: Math.round(p.height * scale), "aria-hidden": "true" });
  canvas.style.width = p.width + "px";
  canvas.style.height = p.height + "px";
  const c = canvas.getContext("2d");
  c.scale(scale, scale);
  let font;
  const pass = (near) => {
    for (const [y, size, color, anchor, bold, words] of p.texts) {
      if (near && y >= bottom) continue;
      const wanted = (bold ? "bold " : "") + size + "px " + fonts;
      if (font !== wanted) c.font = font = wanted; // setting it is slow
      c.fillStyle = color;
      c.textAlign = anchor === "middle" ? "center" : anchor;
      for (let i = 0; i < words.length; i += 2) {
        if ((y < bottom && words[i] < right) === near) c.fillText(words[i + 1], words[i], y);
      }
    }
  };
  pass(true);
  if (p.width > right || p.height > bottom) setTimeout(() => { if (canvas.isConnected) pass(false); }, 150);
  return canvas;
}

// Picture shows one SVG and finds elements by arithmetic on their boxes.
class Picture {
  constructor(view, p, before) {
    this.view = view;
    this.name = p.name;
    this.ids = p.ids;
    this.go = p.go ?? {}; // values that choosing an element sets, by its id
    this.current = 0;
    // Twice as fast as an XML parser; the text comes from our server alone.
    const parsed = document.createElement("template");
    parsed.innerHTML = p.svg;
    const svg = parsed.content.querySelector("svg");
    svg.setAttribute("aria-hidden", "true");
    svg.querySelector("title")?.remove(); // else the browser shows it over every cell
    this.overlay = document.createElementNS(svgNS, "svg");
    this.overlay.setAttribute("class", "overlay");
    this.overlay.setAttribute("width", p.width);
    this.overlay.setAttribute("height", p.height);
    this.overlay.setAttribute("aria-hidden", "true");
    this.hit = document.createElementNS(svgNS, "path");
    this.hit.setAttribute("class", "hit");
    this.here = document.createElementNS(svgNS, "path");
    this.here.setAttribute("class", "here");
    this.kin = document.createElementNS(svgNS, "path");
    this.kin.setAttribute("class", "kin");
    this.overlay.append(this.kin, this.hit, this.here);
    this.stage = make("div", { class: "stage" }, svg, p.texts.length ? drawTexts(p, view.figures.clientWidth + (before?.canvas.scrollLeft ?? 0), window.innerHeight + (before?.canvas.scrollTop ?? 0)) : null, this.overlay);
    this.canvas = make("div", {
      class: "canvas", tabindex: "0", role: "group", "aria-roledescription": "linked picture",
      "aria-label": p.title + ". " + p.desc + (p.ids.length ? (p.go ? " Arrow keys walk the cells, Enter chooses or pins, Escape clears." : " Arrow keys walk the cells, Enter pins, Escape clears.") : ""),
    }, this.stage);
    this.caption = make("figcaption", {}, p.name);
    this.figure = make("figure", {}, this.caption, this.canvas);
    if (before) {
      this.current = Math.min(before.current, Math.max(0, p.ids.length - 1));
      requestAnimationFrame(() => { this.canvas.scrollLeft = before.canvas.scrollLeft; this.canvas.scrollTop = before.canvas.scrollTop; });
    }
    if (p.ids.length) this.listen();
  }

  // link offers the picture in every form. The first is for looking at, the others are files.
  link(address) {
    this.caption.append(make("a", { href: address, target: "_blank", rel: "noopener" }, "SVG"),
      ...forms.filter((f) => f !== "svg").map((f) => make("a", { href: address + "&as=" + f, download: "", class: "form" }, f.toUpperCase())));
  }

  get index() {
    return this.view.pictures.indexOf(this);
  }

  listen() {
    this.stage.addEventListener("pointermove", (e) => {
      const j = this.find(e);
      if (j === this.shown) return;
      this.shown = j;
      if (j >= 0) this.view.light(this.index, j, false);
      else this.view.dark();
    });
    this.stage.addEventListener("pointerleave", () => { this.shown = -1; this.view.dark(); });
    this.stage.addEventListener("click", (e) => {
      let j = this.find(e);
      if (j < 0) j = this.shown ?? -1; // clicks have whole pixels, and some bars few of them
      if (j >= 0) this.pin(j);
    });
    this.canvas.addEventListener("keydown", (e) => this.key(e));
    this.canvas.addEventListener("focus", () => {
      if (this.canvas.matches(":focus-visible")) this.view.light(this.index, this.current, true);
    });
    this.canvas.addEventListener("blur", () => this.view.dark());
  }

  // pin chooses an element: it changes what it is there to change, or stays lit.
  pin(j) {
    this.current = j;
    const id = this.ids[j][0];
    if (this.go[id]) {
      this.view.set({ ...this.view.values, ...this.go[id] });
      writeAddress(true);
      return;
    }
    const same = this.view.pinned && this.view.pinned[1] === id;
    this.view.pinned = same ? null : [this.index, id];
    this.view.light(this.index, j, true);
  }

  find(e) {
    const box = this.stage.getBoundingClientRect();
    const x = e.clientX - box.left, y = e.clientY - box.top;
    return this.ids.findIndex((c) => x >= c[1] && x < c[1] + c[3] && y >= c[2] && y < c[2] + c[4]);
  }

  key(e) {
    const at = this.ids[this.current];
    const mx = at[1] + at[3] / 2, my = at[2] + at[4] / 2;
    // The nearest cell on that side, counting a step aside four times.
    const nearest = (along, across) => {
      let best = -1, cost = Infinity;
      this.ids.forEach((c, j) => {
        const a = along(c[1] + c[3] / 2 - mx, c[2] + c[4] / 2 - my);
        const b = across(c[1] + c[3] / 2 - mx, c[2] + c[4] / 2 - my);
        if (a > 0.5 && a + 4 * Math.abs(b) < cost) { cost = a + 4 * Math.abs(b); best = j; }
      });
      return best;
    };
    const row = (last) => {
      let best = this.current;
      this.ids.forEach((c, j) => {
        if (c[2] === at[2] && (last ? c[1] > this.ids[best][1] : c[1] < this.ids[best][1])) best = j;
      });
      return best;
    };
    let to = -1;
    switch (e.key) {
      case "ArrowRight": to = nearest((x) => x, (x, y) => y); break;
      case "ArrowLeft": to = nearest((x) => -x, (x, y) => y); break;
      case "ArrowDown": to = nearest((x, y) => y, (x) => x); break;
      case "ArrowUp": to = nearest((x, y) => -y, (x) => x); break;
      case "Home": to = row(false); break;
      case "End": to = row(true); break;
      case "Enter": case " ": this.pin(this.current); e.preventDefault(); return;
      case "Escape": this.view.pinned = null; this.view.dark(); announce("cleared"); return;
      default: return;
    }
    e.preventDefault();
    if (to < 0) return;
    this.current = to;
    const c = this.ids[to];
    const box = this.canvas;
    if (c[1] < box.scrollLeft) box.scrollLeft = c[1] - 20;
    if (c[1] + c[3] > box.scrollLeft + box.clientWidth) box.scrollLeft = c[1] + c[3] - box.clientWidth + 20;
    if (c[2] < box.scrollTop) box.scrollTop = c[2] - 20;
    if (c[2] + c[4] > box.scrollTop + box.clientHeight) box.scrollTop = c[2] + c[4] - box.clientHeight + 20;
    this.view.light(this.index, to, true);
  }

  // paint rebuilds the overlay paths: the same element, the cell pointed at, and
  // what else its thread holds.
  paint(hits, here, kin) {
    const boxes = (list, grow) => list.map((c) => `M${c[1] - grow} ${c[2] - grow}h${c[3] + 2 * grow}v${c[4] + 2 * grow}h${-c[3] - 2 * grow}z`).join("");
    this.kin.setAttribute("d", boxes(kin, -1));
    this.hit.setAttribute("d", boxes(hits, 0));
    this.here.setAttribute("d", here ? boxes([here], 3) : "");
  }
}

// ---- running a program -----------------------------------------------------

// addRun asks for arguments and a device. It runs the program of a view, or of a
// field of its own at the end of the page.
function addRun(view) {
  const program = make("textarea", { id: "run-program", rows: sample.program.trimEnd().split("\n").length + 1, spellcheck: "false" });
  program.value = sample.program;
  const args = make("textarea", { id: "run-args", rows: (sample.args ?? []).length + 1, spellcheck: "false" });
  args.value = (sample.args ?? []).join("\n");
  const device = make("select", { id: "run-device" }, ...["auto", ...devices.map((d) => d.name)].map((d) => make("option", {}, d)));
  const out = make("pre", { id: "run-out", tabindex: "0", role: "status", "aria-label": "Result of the run", hidden: true });
  const go = make("button", { class: "act", type: "button" }, "Run on the device");
  go.addEventListener("click", async () => {
    go.disabled = true;
    out.hidden = false;
    out.textContent = "running …";
    try {
      const r = await socket.ask("run", { program: view ? unbound(view.values.src) : program.value, args: args.value.split("\n").filter((s) => s.trim()), device: device.value });
      out.textContent = r ? "on " + r.device + "\n" + r.text : "stopped";
    } catch (e) {
      out.textContent = e.problems ? e.problems.map((p) => (p.line ? "line " + p.line + ", column " + p.col + ": " : "") + p.msg + (p.help ? "\n\t" + p.help : "")).join("\n") : String(e);
    } finally {
      go.disabled = false;
    }
  });
  const field = (input, title, kind) => make("div", { class: "field " + kind }, make("label", { for: input.id }, title), input);
  if (view) {
    args.rows = Math.max(2, args.rows - 1);
    view.fieldset.append(make("div", { class: "run", id: "run", role: "group", "aria-label": "Run the program" }, field(args, "Arguments, one a line", "args"), field(device, "Device", "choice"), go));
    view.fieldset.after(out);
    return;
  }
  content.append(make("section", { class: "pane", id: "run", "aria-labelledby": "run-title" },
    make("header", {}, make("h2", { id: "run-title" }, "Run FP16 × INT6"), make("p", {}, "Runs in a worker process: on the GPU when there is one, else on the interpreter.")),
    make("div", { class: "fields" }, field(program, "Program", "program"), field(args, "Arguments, one a line", "program"), field(device, "Device", "choice"), go), out));
}

// variable finds the session and the variable of "$name@session".
function variable(ref) {
  const [name, id] = ref.slice(1).split("@");
  const session = sessions.find((s) => id ? s.session === id : s.vars.some((v) => v.name === name));
  return { name, session, text: session?.vars.find((v) => v.name === name)?.text };
}

function unbound(value) {
  return value.startsWith("$") ? variable(value).text ?? value : value;
}

// ---- start -----------------------------------------------------------------

let devices = null; // once they are known

function show(list) {
  const same = list.length === views.length && list.every((v, i) => v.pane === views[i].row.name);
  if (same) {
    list.forEach((v, i) => views[i].set(v.values));
    return;
  }
  views = list.map((v) => new View(rows.find((r) => r.name === v.pane), v.values));
  place();
  for (const v of views) v.draw();
}

// open adds a pane, behind another or at the top, and goes there.
function open(name, values, after) {
  const row = rows.find((r) => r.name === name);
  if (!row || views.length >= 16) return;
  const v = new View(row, values);
  views.splice(after ? views.indexOf(after) + 1 : 0, 0, v);
  place();
  v.draw();
  writeAddress(true);
  v.root.scrollIntoView({ block: "start" });
  v.root.querySelector("input, select, textarea")?.focus({ preventScroll: true });
  announce("opened " + row.title);
}

function close(view) {
  const at = views.indexOf(view);
  if (views.length === 1) {
    announce("the last pane stays");
    return;
  }
  views.splice(at, 1);
  place();
  writeAddress(true);
  views[Math.min(at, views.length - 1)].root.querySelector("input, select, textarea, button")?.focus();
  announce("closed " + view.row.title);
}

let named = null; // what the palette finds beside commands
const palette = new Palette({
  async entries() {
    named ??= await socket.ask("palette", {});
    const commands = [
      ["Keys and help", () => showHelp()],
      ["Colours: light", () => theme("light")], ["Colours: dark", () => theme("dark")],
      ["Colours: high contrast", () => theme("contrast")], ["Colours: as the system", () => theme("")],
      ["Copy the link to this page", () => navigator.clipboard.writeText(location.href).then(() => announce("the link is copied"))],
      ...views.filter(() => views.length > 1).map((v) => ["Close " + v.row.title, () => close(v)]),
    ].map(([title, act]) => ({ title, kind: "command", act }));
    return [...commands, ...named];
  },
  async choose(e) {
    if (e.act) return e.act();
    if (e.book) return location.assign(prefix + "nb/" + e.book);
    let values = e.values ?? {};
    if (e.example) values = await socket.ask("example", e.example);
    open(e.pane, values);
  },
});

document.getElementById("find").addEventListener("click", () => palette.show());
document.getElementById("help").addEventListener("click", () => showHelp());
window.addEventListener("keydown", (e) => {
  if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === "k") {
    e.preventDefault();
    palette.show();
  } else if (e.key === "?" && !e.target.closest("input, textarea, select, dialog")) {
    e.preventDefault();
    showHelp();
  }
});

function place() {
  content.replaceChildren(...views.map((v) => v.root));
  placeRun();
}

// placeRun puts what runs a program where the address asks for it: in the pane of
// the Run door, or below the panes of the start page.
function placeRun() {
  if (!devices || !sample) return;
  const view = running() ? views.find((v) => v.row.name === "program") : null;
  if (view || location.search === "" || running()) addRun(view);
}

socket.handlers.set("vars", (list) => {
  sessions = list;
  for (const v of views) {
    v.showBindings();
    if (v.bound) v.draw();
  }
});

// A cell asked to show a value: bind the first pane that fits to it.
socket.handlers.set("explore", (x) => {
  const name = x.form === "program" ? "program" : x.form === "layout" ? "layout" : "see";
  const param = { program: "src", layout: "e", see: "x" }[name];
  const known = sessions.some((s) => s.session === x.session && s.vars.some((v) => v.name === x.name));
  const value = known ? "$" + x.name + "@" + x.session : x.text;
  let v = views.find((v) => v.row.name === name);
  if (!v) {
    v = new View(rows.find((r) => r.name === name), {});
    views.unshift(v);
    place();
  }
  v.set({ ...v.values, [param]: value });
  writeAddress(true);
  announce("now showing " + (x.name || "a value from a notebook"));
});

let first = true;
socket.opened = async () => {
  const hello = await socket.ask("hello", {});
  rows = hello.panes;
  forms = hello.forms;
  sample = hello.sample ?? null;
  sessions = hello.vars;
  if (!first) {
    for (const v of views) v.draw();
    showDevices(socket);
    return;
  }
  first = false;
  doors(hello);
  show(readAddress());
  devices = await showDevices(socket);
  placeRun();
};
