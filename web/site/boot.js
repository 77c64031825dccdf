"use strict";
// The page of a static explorer: what a server would do is done by the core, Go
// compiled to WebAssembly, in a worker of its own. The page itself is the server's:
// it opens a WebSocket as ever and asks for pictures at ./svg?…, and gets both here.
//
// workerText and coreText are put before this file by `tilus-lab site`: the worker's
// program, and nothing or, for pages opened as files, the core in base64.
(() => {
  const script = document.currentScript;
  const asFile = location.protocol === "file:";
  const say = (text) => {
    const note = document.getElementById("offline");
    if (note) { note.hidden = !text; note.textContent = text; }
  };

  // ---- the core ----------------------------------------------------------

  const worker = new Worker(URL.createObjectURL(new Blob([workerText], { type: "text/javascript" })));
  const waiting = new Map(); // number -> resolve
  let next = 1, ready;
  const started = new Promise((resolve) => (ready = resolve));
  worker.onmessage = ({ data }) => {
    if (data.ready) return ready();
    if (data.failed) return say("The explorer's core cannot start: " + data.failed);
    const w = waiting.get(data.n);
    waiting.delete(data.n);
    w(data.result);
  };
  worker.onerror = (e) => say("The explorer's core has failed: " + e.message + ". Load the page again.");
  const call = (what, text) => started.then(() => new Promise((resolve) => {
    waiting.set(next, resolve);
    worker.postMessage({ n: next++, what, text });
  }));
  const begin = (core) => worker.postMessage({ core }, [core]);
  const add = (src) => new Promise((resolve, reject) => {
    const s = document.createElement("script");
    s.src = new URL(src, script.src).href;
    s.onload = resolve;
    s.onerror = () => reject(new Error("cannot load " + src));
    document.head.append(s);
  });
  async function load() {
    if (asFile) {
      await add("core.js"); // a page opened as a file may run scripts and fetch nothing
      const text = atob(window.tilusCore);
      delete window.tilusCore;
      return begin(Uint8Array.from(text, (c) => c.charCodeAt(0)).buffer);
    }
    const r = await fetch(new URL("core.wasm.gz", script.src));
    if (!r.ok) throw new Error("core.wasm.gz: " + r.status);
    begin(await r.arrayBuffer());
  }
  load().catch((e) => say("The explorer's core cannot be loaded: " + e.message));

  // ---- the connection ----------------------------------------------------

  // Drawings of one view take each other's place: only the newest waits.
  window.WebSocket = class extends EventTarget {
    static CONNECTING = 0; static OPEN = 1; static CLOSING = 2; static CLOSED = 3;
    readyState = 0; bufferedAmount = 0; protocol = ""; extensions = ""; binaryType = "blob";
    onopen = null; onmessage = null; onclose = null; onerror = null;
    #views = new Map(); // view -> {busy, then}
    constructor(url) {
      super();
      this.url = String(url);
      say("The explorer's core is loading.");
      started.then(() => {
        say("");
        this.readyState = 1;
        this.#tell(new Event("open"));
      });
    }
    #tell(event) {
      this["on" + event.type]?.(event);
      this.dispatchEvent(event);
    }
    #answer(text) { this.#tell(new MessageEvent("message", { data: text })); }
    send(text) {
      const m = JSON.parse(text);
      if (m.type !== "render") return void call("ask", text).then((a) => this.#answer(a));
      const v = this.#views.get(m.body.view);
      if (!v) return this.#draw(m.body.view, m.id, text);
      if (v.then) this.#answer(JSON.stringify({ v: 1, id: v.then.id, type: "superseded" }));
      v.then = { id: m.id, text };
    }
    async #draw(view, id, text) {
      const v = { then: null };
      this.#views.set(view, v);
      const a = await call("ask", text);
      this.#views.delete(view);
      if (!v.then) return this.#answer(a);
      this.#answer(JSON.stringify({ v: 1, id, type: "superseded" }));
      this.#draw(view, v.then.id, v.then.text);
    }
    close() { this.readyState = 3; this.#tell(new CloseEvent("close")); }
  };

  // ---- pictures and links ------------------------------------------------

  addEventListener("click", async (event) => {
    const a = event.target.closest?.("a[href]");
    if (!a) return;
    const to = new URL(a.href, document.baseURI);
    if (to.origin !== location.origin && !asFile) return;
    if (to.pathname.endsWith("/svg")) {
      event.preventDefault();
      const f = await call("picture", to.search.slice(1));
      if (f.error) return say(f.error);
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([f.data], { type: f.mime }));
      if (a.hasAttribute("download") || to.searchParams.has("as")) link.download = a.download || f.name;
      else link.target = "_blank";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    } else if (asFile && to.protocol === "file:" && to.pathname.endsWith("/")) {
      event.preventDefault(); // a folder of files shows no index
      location.assign(to.pathname + "index.html" + to.search + to.hash);
    }
  }, true);

  // ---- the page's modules --------------------------------------------------

  const main = script.dataset.main;
  addEventListener("DOMContentLoaded", async () => {
    if (new URLSearchParams(location.search).get("embed") === "1") document.body.classList.add("embed");
    if (!asFile) {
      const s = document.createElement("script");
      s.type = "module";
      s.src = main;
      return document.head.append(s);
    }
    await add("modules.js"); // a page opened as a file may import no file, but what it made itself
    // Static imports are made first; those of import(…) when they are asked for,
    // because what is loaded late often imports who loads it.
    const made = new Map();
    const make = window.tilusModule = (name) => {
      if (!made.has(name)) {
        const text = window.tilusModules[name]
          .replace(/\bimport\((["'])\.\/([\w.-]+)\1\)/g, (_, q, other) => "import(tilusModule(" + q + other + q + "))")
          .replace(/\b(from|import)\s*(["'])\.\/([\w.-]+)\2/g, (_, word, q, other) => word + q + make(other) + q);
        made.set(name, URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
      }
      return made.get(name);
    };
    import(make(main.split("/").pop()));
  });
})();
