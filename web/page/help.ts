// The list of keys, and the choice of colours.

import { announce, byId, make, remember } from "./dom";
import { readSheet } from "./state";

const keys = [
  ["Ctrl K", "find a pane, an instruction, a program, a lesson, a command"],
  ["?", "these keys"],
  ["Ctrl Space", "in a text: what may be written here"],
  ["F1", "in a text: what this word means"],
  ["F8", "in an editor: to the next mistake"],
  ["Esc, then Tab", "leave an editor in which Tab indents"],
  ["Tab", "from field to field and picture to picture"],
  ["← → ↑ ↓", "in a picture: from cell to cell"],
  ["Home, End", "in a picture: to the ends of a row"],
  ["Page ↑ ↓, + − 0", "in a picture: a page on; larger, smaller, as it was"],
  ["Enter", "in a picture: choose or pin a cell; with Shift beside those pinned"],
  [", .", "in a pane: a step back or on"],
  ["[ ]", "in a pane: another view"],
  ["Shift Enter, Ctrl Enter", "in a notebook: run a cell and go on; run it"],
  ["Ctrl S", "in a notebook: save it"],
  ["Esc", "let go of a pinned cell, close a window"],
  ["Alt ←, Alt →", "undo and redo: the browser's back and forward"],
];

let help: HTMLDialogElement | undefined;

export function showHelp() {
  if (!help) {
    const done = make("button", { class: "quiet", type: "button" }, "Close");
    const dialog = make("dialog", { class: "help", "aria-labelledby": "help-title" }, make("h2", { id: "help-title", tabindex: "-1", autofocus: true }, "Keys"),
      make("dl", {}, ...keys.flatMap(([k, what]) => [make("dt", {}, make("kbd", {}, k)), make("dd", {}, what)])),
      make("p", {}, "Nothing needs to be run: pictures follow what you type. The address holds all that you see; send it, keep it, or go back in it. A link never runs cells, a device or reads files."), done);
    done.addEventListener("click", () => dialog.close());
    document.body.append(dialog);
    help = dialog;
  }
  if (!help.open) help.showModal();
}

// theme sets the colours of the page: "light", "dark", "contrast", or "" for the system's.
export function theme(name: string) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
  remember("tilus-theme", name);
  byId<HTMLSelectElement>("look").value = name;
  readSheet();
  announce(name ? name + " colours" : "the system's colours");
}
