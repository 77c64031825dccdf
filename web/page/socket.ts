// The websocket with message envelope 1: requests are numbered, answers are
// "ok", "error" or "superseded", and a lost connection is made again.

import { byId, prefix } from "./dom";
import type { Problem } from "./wire";

export class Failure extends Error {
  constructor(readonly problems: Problem[]) {
    super(problems.map((p) => p.msg).join("; "));
  }
}

type Part = (type: string, body: any) => void;

interface Waiting {
  resolve: (body: any) => void;
  reject: (e: Failure) => void;
  part?: Part;
}

const lost = () => new Failure([{ msg: "the connection was lost" }]);

export class Socket {
  private ws!: WebSocket;
  private next = 1;
  private waiting = new Map<number, Waiting>();
  private delay = 250;
  // What to do with messages that answer nothing, by their type.
  readonly handlers = new Map<string, (body: any) => void>();
  opened = async () => {};

  constructor() {
    this.connect();
  }

  private connect() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    this.ws = new WebSocket(scheme + "//" + location.host + prefix + "ws");
    this.ws.onopen = () => {
      this.delay = 250;
      byId("offline").hidden = true;
      this.opened().catch((e) => { if (!(e instanceof Failure)) throw e; }); // one that is lost again is made again
    };
    this.ws.onmessage = (e) => this.receive(JSON.parse(e.data));
    this.ws.onclose = () => {
      for (const w of this.waiting.values()) w.reject(lost());
      this.waiting.clear();
      this.explain();
      setTimeout(() => this.connect(), this.delay);
      this.delay = Math.min(this.delay * 2, 5000);
    };
  }

  // explain says why there is no connection: a server that was started anew does
  // not know this page's cookie.
  private async explain() {
    const note = byId("offline");
    note.hidden = false;
    note.textContent = "The connection is lost; trying again.";
    try {
      const r = await fetch(prefix, { method: "HEAD" });
      if (r.status === 403) note.textContent = "The explorer was started anew. Run `tilus-lab up` once more and open the address it prints.";
    } catch {
      // Nobody answers: the note is right.
    }
  }

  private receive(m: { id: number; type: string; body: any }) {
    const w = this.waiting.get(m.id);
    if (!w) {
      this.handlers.get(m.type)?.(m.body);
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
        w.part?.(m.type, m.body);
    }
  }

  get ready() {
    return this.ws.readyState === WebSocket.OPEN;
  }

  // ask resolves to the body of the answer, or to undefined when a newer request took
  // its place or stop was raised. part is called for messages on the way.
  ask(type: string, body: unknown, part?: Part, stop?: AbortSignal): Promise<any> {
    if (!this.ready) return Promise.reject(lost());
    const id = this.next++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject, part });
      this.send(id, type, body);
      stop?.addEventListener("abort", () => {
        if (this.waiting.has(id) && this.ready) this.send(this.next++, "cancel", id);
      }, { once: true });
    });
  }

  private send(id: number, type: string, body: unknown) {
    this.ws.send(JSON.stringify({ v: 1, id, type, body }));
  }
}
