// The notebook page: cells are edited here, everything else (Markdown, outputs,
// files, running) is done by the server. Nothing runs until it is asked for.

import { announce, byId, make, prefix, upper } from "./dom";
import { query } from "./address";
import { doors, showDevices } from "./header";
import { bindKeys, finder } from "./shell";
import { Socket } from "./socket";
import { TextBox } from "./textbox";
import { Widgets, type Comm } from "./widget";
import { byTrust, type Asks } from "./trust";
import type { Assist } from "./assist";
import type { Hello, Row, Session, Values } from "./wire";

interface CellJSON {
  id: string;
  type: string;
  source: string;
  html?: string;
  count?: number;
  outputs?: Output[];
}

interface Output {
  kind: string;
  text?: string;
  src?: string;
  html?: string;
  model?: string;
  scripts?: boolean;
  high?: number;
  light?: boolean; // drawn on white
  display?: string;
}

const socket = new Socket();
const content = byId("content");
const name = decodeURIComponent(location.pathname.slice((prefix + "nb/").length)).replace(/\/$/, "");
let cells: Cell[] = [];
let dirty = false;
let untrusted: Asks | null = null; // what has to be trusted before a cell runs

// A widget tells the notebook what was moved; what comes back goes where it belongs.
const widgets = new Widgets((comm, data, from) => socket.ask("nb.comm", { name, comm, data }, (kind, body) => {
  if (kind === "comm") widgets.comm(body as Comm);
  else if (kind === "update") update(body);
  else if (kind === "output") cells.find((c) => c.root.contains(from))?.add(body);
}).then(touched, failed));

// update replaces every output that was shown under the display's ID.
function update(o: Output) {
  for (const c of cells) c.update(o);
}

const state = make("span", { class: "state", role: "status" });
function tell(text: string) {
  state.textContent = text;
}

function failed(e: Error) {
  tell(e.message);
}

function touched() {
  if (!dirty) tell("not saved");
  dirty = true;
}
window.addEventListener("beforeunload", (e) => { if (dirty) e.preventDefault(); });

// Completion and help come from the worker that holds the notebook's values.
const worker: Assist = {
  async complete(before, after) {
    try {
      return await socket.ask("nb.complete", { name, before, after });
    } catch {
      return undefined;
    }
  },
  async describe(before, after) {
    try {
      return (await socket.ask("nb.inspect", { name, before, after }))?.html ?? "";
    } catch {
      return "";
    }
  },
};

// Queue has cells run one after the other, in the order in which they were asked to. Behind one that fails, or is
// interrupted, nothing that waits runs: it was asked for in the belief that what stands before it has run.
class Queue {
  private waiting: { turn: (stop: AbortSignal) => Promise<boolean>; drop: () => void; ended: (ok: boolean) => void }[] = [];
  private running: AbortController | null = null;

  // add resolves to whether the cell ran without an error. turn runs it, drop takes back that it waits.
  add(turn: (stop: AbortSignal) => Promise<boolean>, drop: () => void): Promise<boolean> {
    return new Promise((ended) => {
      this.waiting.push({ turn, drop, ended });
      if (this.waiting.length === 1) this.go();
    });
  }

  // stop interrupts the cell of this page that runs, also while the server is still starting a worker for it. It reports
  // false where none does, or that has been tried.
  stop() {
    if (!this.running || this.running.signal.aborted) return false;
    this.running.abort();
    return true;
  }

  private async go() {
    while (this.waiting.length) {
      const { turn, ended } = this.waiting[0];
      const stop = (this.running = new AbortController());
      const ok = await turn(stop.signal);
      this.running = null;
      ended(ok);
      this.waiting.shift();
      if (ok || !this.waiting.length) continue;
      const left = this.waiting.splice(0);
      for (const w of left) {
        w.drop();
        w.ended(false);
      }
      tell("stopped at a cell that failed: " + left.length + " behind it did not run");
    }
  }
}
const queue = new Queue();

class Cell {
  readonly id: string;
  readonly type: string;
  readonly root: HTMLElement;
  private box: TextBox;
  private count: HTMLElement;
  private number: string; // that the cell had when it last ended
  private turns = 0; // for which it waits, or in which it runs
  private out = make("div", { class: "out", "aria-label": "Output", role: "group" });
  private go = make("button", { class: "quiet", type: "button", title: "Shift+Enter", onclick: () => this.run() }, "▶ run");
  private prose: HTMLElement | null = null;

  constructor(c: CellJSON) {
    this.id = c.id;
    this.type = c.type;
    const code = c.type === "code";
    this.box = new TextBox({
      name: code ? "Code of the cell" : "Text of the cell", lines: true, language: code ? "go" : "markdown", rich: code, tab: code,
      value: c.source, assist: code ? worker : undefined, changed: (commit) => { if (!commit) touched(); }, key: (e) => this.key(e),
    });
    this.number = c.count ? "[" + c.count + "]" : "[ ]";
    this.count = make("span", {}, this.number);
    this.root = make("section", { class: "cell " + c.type, role: "group", "aria-label": c.type + " cell" });
    if (code) {
      this.root.append(make("div", { class: "head" }, this.go, this.count), this.box.root, this.out);
      for (const o of c.outputs ?? []) this.add(o);
    } else {
      const prose = make("div", { class: "prose", tabindex: "0", role: "group", "aria-label": "Text; Enter edits it, Shift and Enter go on" });
      prose.innerHTML = c.html ?? ""; // made by goldmark without raw HTML
      prose.addEventListener("dblclick", () => this.edit());
      prose.addEventListener("keydown", (e) => {
        if (e.key !== "Enter" || e.target !== prose) return;
        e.preventDefault();
        if (e.shiftKey) this.next();
        else this.edit();
      });
      this.box.root.hidden = c.type === "markdown";
      this.prose = prose;
      this.root.append(prose, this.box.root);
    }
  }

  get source() {
    return this.box.value;
  }

  // lock takes away what a person who may only look cannot use.
  lock() {
    this.go.remove();
  }

  focus() {
    if (this.prose && this.box.root.hidden) this.prose.focus();
    else this.box.focus();
  }

  edit() {
    this.box.root.hidden = false;
    if (this.prose) this.prose.hidden = true;
    this.box.fit();
    this.box.focus();
  }

  private key(e: KeyboardEvent) {
    if (e.key !== "Enter" || !(e.shiftKey || e.ctrlKey)) return false;
    e.preventDefault();
    this.run();
    if (e.shiftKey) this.next();
    return true;
  }

  private next() {
    cells[cells.indexOf(this) + 1]?.focus();
  }

  async run(): Promise<boolean> {
    const source = this.source;
    if (this.type === "markdown") {
      const r = await socket.ask("nb.markdown", { source }).catch(failed);
      if (r && this.source === source) { // else a person writes on
        this.prose!.innerHTML = r.html;
        this.prose!.hidden = false;
        this.box.root.hidden = true;
      }
      return true;
    }
    if (this.type !== "code") return true;
    if (!(await trusted())) return false;
    this.wait(1);
    return queue.add((stop) => this.send(source, stop), () => this.wait(-1));
  }

  // wait shows whether the cell waits or runs.
  private wait(more: number) {
    const on = (this.turns += more) > 0;
    this.root.classList.toggle("busy", on);
    this.count.textContent = on ? "[*]" : this.number;
    this.go.disabled = on;
  }

  // send runs the cell, which has its turn.
  private async send(source: string, stop: AbortSignal): Promise<boolean> {
    this.out.replaceChildren();
    this.number = "[ ]";
    let vars: { name: string; query: string }[] = [];
    try {
      const r = await socket.ask("nb.run", { name, cell: this.id, source }, (kind, body) => {
        if (kind === "clear") this.out.replaceChildren();
        else if (kind === "output") this.add(body);
        else if (kind === "update") update(body);
        else if (kind === "comm") widgets.comm(body);
        else if (kind === "vars") vars = body;
      }, stop);
      touched();
      if (vars.length) {
        this.out.append(make("p", { class: "links" }, "Open in explorer: ",
          ...vars.flatMap((v) => [make("a", { href: prefix + v.query, target: "_blank", rel: "noopener" }, v.name), " "])));
      }
      if (r) this.number = "[" + r.count + "]";
      announce(r ? "cell " + r.count + " " + r.status : "stopped");
      return r?.status === "ok";
    } catch (e) {
      this.add({ kind: "error", text: (e as Error).message });
      return false;
    } finally {
      this.wait(-1);
    }
  }

  add(o: Output) {
    const last = this.out.lastElementChild as HTMLElement | null;
    if (o.kind === "stream" && last?.dataset.stream) {
      last.textContent += o.text ?? "";
      return;
    }
    this.out.append(this.element(o));
  }

  // update keeps the height of what it replaces until the new picture is there, so that nothing jumps.
  update(o: Output) {
    for (const old of this.out.querySelectorAll<HTMLElement>("[data-display]")) {
      if (old.dataset.display !== o.display) continue;
      const img = old.querySelector("img");
      if (o.kind === "image" && img) {
        img.src = o.src!;
        img.alt = o.text || "output of the cell";
      } else old.replaceWith(this.element(o));
    }
  }

  private element(o: Output) {
    const e = this.bare(o);
    if (o.display) e.dataset.display = o.display;
    return e;
  }

  private bare(o: Output): HTMLElement {
    switch (o.kind) {
      case "image":
        return make("div", { class: "picture" + (o.light ? " light" : ""), tabindex: "0", role: "group", "aria-label": "Picture" }, make("img", { src: o.src, alt: o.text || "output of the cell" }));
      case "html": {
        const div = make("div", { class: "prose" });
        div.innerHTML = o.html ?? ""; // made by goldmark without raw HTML
        return div;
      }
      case "frame": // of no origin: it reaches neither this page nor anything else
        return make("iframe", { class: "frame" + (o.light ? " light" : ""), sandbox: o.scripts ? "allow-scripts" : "", src: prefix + "frame/" + o.src, height: o.high, title: o.text?.split("\n")[0] || "output of the cell", referrerpolicy: "no-referrer" });
      case "widget": {
        const e = widgets.draw(o.model ?? "");
        if (e) return make("div", { class: "widgets" }, e);
        return make("pre", { tabindex: "0" }, (o.text ?? "") + "\n(run the cell to use its controls)");
      }
    }
    const pre = make("pre", { tabindex: "0", class: o.kind === "error" ? "error" : "" }, o.text ?? "");
    if (o.kind === "stream") pre.dataset.stream = "1";
    return pre;
  }
}

// trusted asks a person, where the notebook came from elsewhere, before anything of it runs. What is asked for meanwhile has
// the same answer.
let trusting: Promise<boolean> | null = null;
async function trusted() {
  if (!untrusted) return true;
  trusting ??= askTrust(untrusted).finally(() => { trusting = null; });
  return trusting;
}

async function askTrust(asks: Asks) {
  const how = await byTrust(name, asks, cells.filter((c) => c.type === "code").map((c) => c.source));
  if (!how) {
    tell("nothing ran");
    return false;
  }
  try {
    await socket.ask("nb.trust", { name, sum: asks.sum, always: how === "always" });
  } catch (e) {
    failed(e as Error);
    return false;
  }
  untrusted = null;
  notice.remove();
  return true;
}
const notice = make("p", { class: "notice", role: "note" }, "This notebook came from elsewhere. Nothing in it has run, and its outputs cannot run anything. ",
  make("button", { class: "quiet", type: "button", onclick: () => trusted() }, "What would it run?"));

// save writes the notebook as it is when its turn comes: a file never gets an older text after a newer one.
let saving = Promise.resolve();
function save(force: boolean) {
  saving = saving.then(() => store(force));
}

async function store(force: boolean) {
  dirty = false; // what is typed from here on is not in what is sent
  try {
    await socket.ask("nb.save", { name, force, cells: cells.map((c) => ({ id: c.id, type: c.type, source: c.source })) });
    tell(dirty ? "not saved" : "saved");
  } catch (e) {
    dirty = true;
    const text = (e as Error).message;
    tell(text);
    if (!force && text.includes("changed on disk") && !overwrite.isConnected) state.after(overwrite);
    return;
  }
  overwrite.remove();
}
const overwrite = make("button", { class: "quiet", type: "button", onclick: () => save(true) }, "overwrite");

async function runAll() {
  if (!(await trusted())) return;
  const ran = await Promise.all(cells.filter((c) => c.type === "code").map((c) => c.run()));
  if (ran.every(Boolean)) tell("all cells ran");
  else if (ran.indexOf(false) === ran.length - 1) tell("the last cell failed");
}

// interrupt ends what runs: the cell of this page first, then what other pages run, or what did not end.
function interrupt() {
  if (!queue.stop()) socket.ask("nb.interrupt", { name }).catch(failed);
}

function restart() {
  socket.ask("nb.restart", { name }).then(() => tell("restarted: variables are gone"), failed);
}

function add(type: string) {
  const c = new Cell({ id: crypto.randomUUID().slice(0, 8), type, source: "", html: "" });
  cells.push(c);
  content.append(c.root);
  if (type === "markdown") c.edit();
  else c.focus();
  touched();
}

function button(text: string, f: () => void, kind = "quiet") {
  return make("button", { class: kind, type: "button", onclick: f }, text);
}

document.addEventListener("keydown", (e) => {
  if ((e.ctrlKey || e.metaKey) && e.key === "s" && name) {
    e.preventDefault();
    save(false);
  }
});

let rows: Row[] = [];
bindKeys(finder(socket, (pane: string, values: Values) => {
  const row = rows.find((r) => r.name === pane);
  if (!row) return;
  const all = Object.fromEntries(row.params.map((p) => [p.name, values[p.name] ?? p.default]));
  location.assign(prefix + query([{ row, values: all }]));
}, () => name ? [
  ["Run all cells", runAll], ["Save the notebook", () => save(false)],
  ["Add a code cell", () => add("code")], ["Add a text cell", () => add("markdown")],
] : []));

// running lists what runs, here or in Jupyter, and what of it a pane can show.
const live = make("div", { class: "running" });
function running(list: Session[]) {
  const place = { layout: ["layout", "e"], program: ["program", "src"] } as Record<string, string[]>;
  live.replaceChildren(make("h2", {}, "Running"), list.length ? make("ul", { class: "shelf" }, ...list.map((s) => make("li", {}, make("b", {}, (s.title || s.session).replace(/\.ipynb$/, "")), " ",
    ...s.vars.filter((v) => v.form && v.text).flatMap((v) => {
      const [pane, param] = place[v.form!] ?? ["see", "x"];
      return [make("a", { href: prefix + "?v=1&p=" + pane + "&" + param + "=" + encodeURIComponent("$" + v.name + "@" + s.session), title: v.form }, v.name), " "];
    })))) : make("p", {}, "No notebook runs, here or in Jupyter."));
}
socket.handlers.set("vars", running);

// What a cell changes after its end has no request to come with.
socket.handlers.set("update", update);
socket.handlers.set("comm", (m: Comm) => widgets.comm(m));

function titled(text: string) {
  byId("title").textContent = text;
  document.title = text + " – Tilus Lab";
}

let first = true;
socket.opened = async () => {
  const hello: Hello = await socket.ask("hello", {});
  rows = hello.panes;
  doors(hello);
  const looking = hello.role === "view";
  if (looking) byId("devices").textContent = "you may look, not run";
  else showDevices(socket);
  if (!first) return;
  if (!name) {
    first = false;
    titled("Notebooks");
    content.replaceChildren(make("h2", {}, "Notebooks"), make("ul", { class: "shelf books" },
      ...hello.notebooks.map((n) => {
        const [, number, words] = /^(\d+)-([^/]+)$/.exec(n) ?? [];
        return make("li", {}, make("a", { class: "book", href: prefix + "nb/" + n.split("/").map(encodeURIComponent).join("/"), title: n }, number ? make("b", {}, String(+number)) : null, words ? upper(words.replaceAll("-", " ")) : n));
      })), live);
    running(hello.vars);
    return;
  }
  try {
    const nb = await socket.ask("nb.open", { name });
    first = false;
    titled(nb.name);
    cells = nb.cells.map((c: CellJSON) => new Cell(c));
    if (looking) for (const c of cells) c.lock();
    untrusted = looking ? null : nb.asks ?? null;
    const bar = looking ? make("p", { class: "bar" }, state) : make("div", { class: "bar", role: "toolbar", "aria-label": "Notebook" },
      button("Run all", runAll, "act"), button("Interrupt", interrupt), button("Restart", restart),
      button("Save", () => save(false)), button("+ code", () => add("code")), button("+ text", () => add("markdown")), state);
    content.replaceChildren(bar, ...(untrusted ? [notice] : []), ...cells.map((c) => c.root));
    tell(nb.name);
  } catch (e) {
    content.replaceChildren(make("p", { class: "errors", role: "alert" }, (e as Error).message));
  }
};
