// The notebook page: cells are edited here, everything else (Markdown, outputs,
// files, running) is done by the server. Nothing runs until it is asked for.

import { Socket, make, announce, showDevices, doors, prefix } from "./socket.js";
import { Widgets } from "./widget.js";

const socket = new Socket();
const content = document.getElementById("content");
const name = decodeURIComponent(location.pathname.slice((prefix + "nb/").length)).replace(/\/$/, "");
let cells = [];
let dirty = false;

// A widget tells the notebook what was moved; what comes back goes where it belongs.
const widgets = new Widgets((comm, data, from) => socket.ask("nb.comm", { name, comm, data }, (kind, body) => {
  if (kind === "comm") widgets.comm(body);
  else if (kind === "update") update(body);
  else if (kind === "output") cells.find((c) => c.root.contains(from))?.add(body);
}).then(touched, (e) => tell(e.message)));

// update replaces every output that was shown under the display's ID.
function update(o) {
  for (const c of cells) c.update(o);
}

const state = make("span", { class: "state", role: "status" });
function tell(text) {
  state.textContent = text;
}

function touched() {
  if (!dirty) tell("not saved");
  dirty = true;
}
window.addEventListener("beforeunload", (e) => { if (dirty) e.preventDefault(); });

class Cell {
  constructor(c) {
    this.id = c.id;
    this.type = c.type;
    this.box = make("textarea", { spellcheck: "false", autocapitalize: "off", "aria-label": c.type === "code" ? "Code of the cell" : "Text of the cell" });
    this.box.value = c.source;
    this.box.addEventListener("input", () => { touched(); this.fit(); });
    this.box.addEventListener("keydown", (e) => this.key(e));
    this.count = make("span", {}, c.count ? "[" + c.count + "]" : "[ ]");
    this.out = make("div", { class: "out", "aria-label": "Output", role: "group" });
    this.root = make("section", { class: "cell " + c.type, role: "group", "aria-label": c.type + " cell" });
    if (c.type === "code") {
      this.go = make("button", { class: "quiet", type: "button", title: "Shift+Enter", onclick: () => this.run() }, "▶ run");
      this.root.append(make("div", { class: "head" }, this.go, this.count), this.box, this.out);
      for (const o of c.outputs ?? []) this.add(o);
    } else {
      this.prose = make("div", { class: "prose", tabindex: "0", role: "group", "aria-label": "Text; Enter edits it" });
      this.prose.innerHTML = c.html ?? ""; // made by goldmark without raw HTML
      this.prose.addEventListener("dblclick", () => this.edit());
      this.prose.addEventListener("keydown", (e) => { if (e.key === "Enter" && e.target === this.prose) { e.preventDefault(); this.edit(); } });
      this.box.hidden = c.type === "markdown";
      this.root.append(this.prose, this.box);
    }
  }

  fit() {
    this.box.rows = Math.max(1, this.box.value.split("\n").length);
  }

  edit() {
    this.box.hidden = false;
    this.prose.hidden = true;
    this.fit();
    this.box.focus();
  }

  key(e) {
    if (e.key === "Enter" && (e.shiftKey || e.ctrlKey)) {
      e.preventDefault();
      this.run();
      if (e.shiftKey) {
        const next = cells[cells.indexOf(this) + 1];
        if (next) (next.box.hidden ? next.prose : next.box).focus();
      }
    } else if (e.key === "Tab" && !e.shiftKey && this.type === "code" && !this.leaving) {
      e.preventDefault();
      this.box.setRangeText("\t", this.box.selectionStart, this.box.selectionEnd, "end");
      touched();
    }
    // After Escape, Tab leaves the cell: a keyboard never gets stuck in it.
    this.leaving = e.key === "Escape";
  }

  async run() {
    if (this.type === "markdown") {
      const r = await socket.ask("nb.markdown", { source: this.box.value });
      this.prose.innerHTML = r.html;
      this.prose.hidden = false;
      this.box.hidden = true;
      return true;
    }
    if (this.type !== "code") return true;
    this.out.replaceChildren();
    this.root.classList.add("busy");
    this.count.textContent = "[*]";
    this.go.disabled = true;
    let vars = [];
    try {
      const r = await socket.ask("nb.run", { name, cell: this.id, source: this.box.value }, (kind, body) => {
        if (kind === "clear") this.out.replaceChildren();
        else if (kind === "output") this.add(body);
        else if (kind === "update") update(body);
        else if (kind === "comm") widgets.comm(body);
        else if (kind === "vars") vars = body;
      });
      touched();
      if (vars.length) {
        this.out.append(make("p", { class: "links" }, "Open in explorer: ",
          ...vars.flatMap((v) => [make("a", { href: prefix + v.query, target: "_blank", rel: "noopener" }, v.name), " "])));
      }
      this.count.textContent = r ? "[" + r.count + "]" : "[ ]";
      announce(r ? "cell " + r.count + " " + r.status : "stopped");
      return r?.status === "ok";
    } catch (e) {
      this.count.textContent = "[ ]";
      this.add({ kind: "error", text: e.message });
      return false;
    } finally {
      this.root.classList.remove("busy");
      this.go.disabled = false;
    }
  }

  add(o) {
    const last = this.out.lastElementChild;
    if (o.kind === "stream" && last?.dataset.stream) {
      last.textContent += o.text;
      return;
    }
    this.out.append(this.element(o));
  }

  // update keeps the height of what it replaces until the new picture is there, so that nothing jumps.
  update(o) {
    for (const old of this.out.querySelectorAll("[data-display]")) {
      if (old.dataset.display !== o.display) continue;
      const img = old.querySelector("img");
      if (o.kind === "image" && img) {
        img.src = o.src;
        img.alt = o.text || "output of the cell";
      } else old.replaceWith(this.element(o));
    }
  }

  element(o) {
    const e = this.bare(o);
    if (o.display) e.dataset.display = o.display;
    return e;
  }

  bare(o) {
    switch (o.kind) {
      case "image":
        return make("div", { class: "picture", tabindex: "0", role: "group", "aria-label": "Picture" }, make("img", { src: o.src, alt: o.text || "output of the cell" }));
      case "html": {
        const div = make("div", { class: "prose" });
        div.innerHTML = o.html; // made by goldmark without raw HTML
        return div;
      }
      case "frame": // of no origin: it reaches neither this page nor anything else
        return make("iframe", { class: "frame", sandbox: o.scripts ? "allow-scripts" : "", src: prefix + "frame/" + o.src, height: o.high, title: o.text?.split("\n")[0] || "output of the cell", referrerpolicy: "no-referrer" });
      case "widget": {
        const e = widgets.draw(o.model);
        if (e) return make("div", { class: "widgets" }, e);
        return make("pre", { tabindex: "0" }, (o.text ?? "") + "\n(run the cell to use its controls)");
      }
    }
    const pre = make("pre", { tabindex: "0", class: o.kind === "error" ? "error" : "" }, o.text ?? "");
    if (o.kind === "stream") pre.dataset.stream = "1";
    return pre;
  }
}

async function save(force) {
  try {
    await socket.ask("nb.save", { name, force, cells: cells.map((c) => ({ id: c.id, type: c.type, source: c.box.value })) });
    dirty = false;
    tell("saved");
  } catch (e) {
    tell(e.message);
    if (!force && e.message.includes("changed on disk") && !overwrite.isConnected) state.after(overwrite);
    return;
  }
  overwrite.remove();
}
const overwrite = make("button", { class: "quiet", type: "button", onclick: () => save(true) }, "overwrite");

async function runAll() {
  for (const c of cells) {
    if (c.type === "code" && !(await c.run())) {
      tell("stopped at a cell that failed");
      return;
    }
  }
  tell("all cells ran");
}

function newID() {
  return crypto.randomUUID().slice(0, 8);
}

function add(type) {
  const c = new Cell({ id: newID(), type, source: "", html: "" });
  cells.push(c);
  content.append(c.root);
  if (type === "markdown") c.edit();
  else c.box.focus();
  touched();
}

function button(text, f, kind = "quiet") {
  return make("button", { class: kind, type: "button", onclick: f }, text);
}

document.addEventListener("keydown", (e) => {
  if ((e.ctrlKey || e.metaKey) && e.key === "s" && name) {
    e.preventDefault();
    save(false);
  }
});

let first = true;
socket.opened = async () => {
  const hello = await socket.ask("hello", {});
  doors(hello);
  showDevices(socket);
  if (!first) return;
  first = false;
  if (!name) {
    content.replaceChildren(make("h2", {}, "Notebooks"), make("ul", { class: "shelf" },
      ...hello.notebooks.map((n) => make("li", {}, make("a", { href: prefix + "nb/" + n.split("/").map(encodeURIComponent).join("/") }, n)))));
    return;
  }
  try {
    const nb = await socket.ask("nb.open", { name });
    document.title = nb.name + " – Tilus Lab";
    cells = nb.cells.map((c) => new Cell(c));
    const bar = make("div", { class: "bar", role: "toolbar", "aria-label": "Notebook" },
      button("Run all", runAll, "act"), button("Interrupt", () => socket.ask("nb.interrupt", { name })),
      button("Restart", async () => { await socket.ask("nb.restart", { name }); tell("restarted: variables are gone"); }),
      button("Save", () => save(false)), button("+ code", () => add("code")), button("+ text", () => add("markdown")), state);
    content.replaceChildren(bar, ...cells.map((c) => c.root));
    for (const c of cells) c.fit();
    tell(nb.name);
  } catch (e) {
    content.replaceChildren(make("p", { class: "errors", role: "alert" }, e.message));
  }
};
