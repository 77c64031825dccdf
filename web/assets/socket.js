// The websocket with message envelope 1: requests are numbered, answers are
// "ok", "error" or "superseded", and a lost connection is made again.

export const prefix = document.body.dataset.prefix;

export class Failure extends Error {
  constructor(problems) {
    super(problems.map((p) => p.msg).join("; "));
    this.problems = problems;
  }
}

export class Socket {
  constructor() {
    this.next = 1;
    this.waiting = new Map(); // id -> {resolve, reject, part}
    this.handlers = new Map(); // type of unasked message -> function
    this.delay = 250;
    this.opened = () => {};
    this.connect();
  }

  connect() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    this.ws = new WebSocket(scheme + "//" + location.host + prefix + "ws");
    this.ws.onopen = () => {
      this.delay = 250;
      document.getElementById("offline").hidden = true;
      this.opened();
    };
    this.ws.onmessage = (e) => this.receive(JSON.parse(e.data));
    this.ws.onclose = () => {
      for (const w of this.waiting.values()) w.reject(new Failure([{ msg: "the connection was lost" }]));
      this.waiting.clear();
      this.explain();
      setTimeout(() => this.connect(), this.delay);
      this.delay = Math.min(this.delay * 2, 5000);
    };
  }

  // explain says why there is no connection: a server that was started anew does
  // not know this page's cookie.
  async explain() {
    const note = document.getElementById("offline");
    note.hidden = false;
    note.textContent = "The connection is lost; trying again.";
    try {
      const r = await fetch(prefix, { method: "HEAD" });
      if (r.status === 403) note.textContent = "The explorer was started anew. Run `tilus-lab up` once more and open the address it prints.";
    } catch {
      // Nobody answers: the note is right.
    }
  }

  receive(m) {
    const w = this.waiting.get(m.id);
    if (!w) {
      const f = this.handlers.get(m.type);
      if (f) f(m.body);
      return;
    }
    switch (m.type) {
      case "ok":
        this.waiting.delete(m.id);
        w.resolve(m.body);
        break;
      case "superseded":
        this.waiting.delete(m.id);
        w.resolve(undefined);
        break;
      case "error":
        this.waiting.delete(m.id);
        w.reject(new Failure(m.body.problems));
        break;
      default:
        if (w.part) w.part(m.type, m.body);
    }
  }

  get ready() {
    return this.ws.readyState === WebSocket.OPEN;
  }

  // ask resolves to the body of the answer, or to undefined when a newer
  // request took its place. part is called for messages on the way.
  ask(type, body, part) {
    if (!this.ready) return Promise.reject(new Failure([{ msg: "the connection was lost" }]));
    const id = this.next++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject, part });
      this.ws.send(JSON.stringify({ v: 1, id, type, body }));
    });
  }
}

export function make(tag, attrs = {}, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs)) {
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else if (v === true) e.setAttribute(k, "");
    else if (v !== false && v != null) e.setAttribute(k, v);
  }
  e.append(...children.filter((c) => c != null));
  return e;
}

export function announce(text) {
  document.getElementById("live").textContent = text;
}

// showDevices fills the badge in the header.
export async function showDevices(socket) {
  const badge = document.getElementById("devices");
  try {
    const list = await socket.ask("devices", {});
    const gpu = list.filter((d) => d.name.startsWith("cuda"));
    badge.classList.toggle("gpu", gpu.length > 0);
    badge.textContent = gpu.length ? gpu.map((d) => d.name + ": " + d.detail).join(", ")
      : list.length ? "no GPU; runs on " + list.map((d) => d.name).join(", ") : "pictures only; no device connected";
    return list;
  } catch (e) {
    badge.textContent = "devices: " + e.message;
    return [];
  }
}

export function doors(hello) {
  const list = [];
  if (hello.notebooks.length) list.push(["nb/" + (hello.notebooks.some((n) => n.startsWith("01")) ? "01" : ""), "Learn", "the first lesson"]);
  list.push(["?v=1&p=see", "See", "paste any notation"]);
  if (hello.sample) list.push(["?v=1#run", "Run", "FP16 × INT6"]);
  document.getElementById("doors").replaceChildren(...list.map(([to, name, what]) =>
    make("a", { href: prefix + to }, make("b", {}, name), make("span", {}, what))));
}
