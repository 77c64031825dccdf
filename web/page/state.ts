// What the parts of the explorer page share.

import { computed, signal } from "@preact/signals-core";
import { remembered } from "./dom";
import type { Socket } from "./socket";
import type { Row, Session, Variable } from "./wire";
import type { View } from "./view";

export const rows = signal<Row[]>([]);
export const books = signal<string[]>([]); // notebooks and lessons by name
export const forms = signal<string[]>([]); // of pictures, for taking them away
export const sessions = signal<Session[]>([]); // running notebooks
export const views = signal<View[]>([]); // the panes, in their order
export const front = signal<View | null>(null); // the one whose tab is chosen on a small screen
export const plain = signal(remembered("tilus-editor") === "plain"); // texts in plain fields

export const share = signal({ local: true, static: "" });

// sheet is what pictures are drawn on, so that they fit the page; "" is light.
export const sheet = signal("");
export function readSheet() {
  const name = getComputedStyle(document.documentElement).getPropertyValue("--sheet").trim();
  sheet.value = name === "light" ? "" : name;
}
readSheet();
for (const wish of ["(prefers-color-scheme: dark)", "(prefers-contrast: more)"]) matchMedia(wish).addEventListener("change", readSheet);

const small = matchMedia("(max-width: 700px)");
export const narrow = signal(small.matches);
small.addEventListener("change", () => { narrow.value = small.matches; });

// tabbed says whether one pane shows at a time.
export const tabbed = computed(() => narrow.value && views.value.length > 1 && !document.body.classList.contains("embed"));

// variable finds the session and the variable of "$name@session".
export function variable(ref: string): { name: string; session?: Session; text?: string } {
  const [name, id] = ref.slice(1).split("@");
  const session = sessions.value.find((s) => id ? s.session === id : s.vars.some((v: Variable) => v.name === name));
  return { name, session, text: session?.vars.find((v) => v.name === name)?.text };
}

// What panes ask of the page around them.
export interface Desk {
  socket: Socket;
  open(name: string, values: Record<string, string>, after?: View): void;
  split(v: View): void;
  close(v: View): void;
  wrote(commit: boolean): void; // the state changed
}
