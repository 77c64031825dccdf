// What may be written at a place, and what a word there means: asked of the server.

import type { Socket } from "./socket";

export interface Offer {
  text: string;
  kind: string;
  doc?: string;
}

export interface Assist {
  // complete lists what may replace the word at the end of before.
  complete(before: string, after: string): Promise<{ items: Offer[]; word: string } | undefined>;
  // describe is safe HTML about the word between the two, or "".
  describe(before: string, after: string): Promise<string>;
}

// assist asks about texts of a kind: "layout" or "program".
export function assist(socket: Socket, kind: string): Assist {
  let stop = new AbortController();
  return {
    async complete(before, after) {
      stop.abort(); // only the newest counts
      stop = new AbortController();
      try {
        return await socket.ask("complete", { kind, before, after }, undefined, stop.signal);
      } catch {
        return undefined; // typing goes on without offers
      }
    },
    async describe(before, after) {
      try {
        return (await socket.ask("describe", { kind, before, after }))?.html ?? "";
      } catch {
        return "";
      }
    },
  };
}
