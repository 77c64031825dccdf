// What both pages have: the palette and the keys that open it and the help.

import { announce, byId, prefix, remember } from "./dom";
import { showHelp, theme } from "./help";
import { Palette } from "./palette";
import { plain } from "./state";
import type { Socket } from "./socket";
import type { Entry, Values } from "./wire";

// fields chooses plain fields or editors for texts.
function fields(name: "plain" | "") {
  remember("tilus-editor", name);
  plain.value = name === "plain";
  announce(plain.value ? "texts are in plain fields" : "texts are in editors");
}

// finder is the palette over everything that has a name; own are commands of the page.
export function finder(socket: Socket, open: (pane: string, values: Values) => void, own: () => [string, () => void][]) {
  let named: Entry[] | null = null;
  return new Palette({
    async entries() {
      named ??= await socket.ask("palette", {}) as Entry[];
      const commands: [string, () => void][] = [
        ["Keys and help", showHelp],
        ["Colours: light", () => theme("light")], ["Colours: dark", () => theme("dark")],
        ["Colours: high contrast", () => theme("contrast")], ["Colours: as the system", () => theme("")],
        ["Text fields: editor", () => fields("")], ["Text fields: plain", () => fields("plain")],
        ["Copy the link to this page", () => { navigator.clipboard.writeText(location.href).then(() => announce("the link is copied")); }],
        ...own(),
      ];
      return [...commands.map(([title, act]) => ({ title, kind: "command", act })), ...named];
    },
    async choose(e) {
      if (e.act) return e.act();
      if (e.book) return location.assign(prefix + "nb/" + e.book);
      open(e.pane!, e.example ? await socket.ask("example", e.example) : e.values ?? {});
    },
  });
}

export function bindKeys(find: Palette) {
  byId("find").addEventListener("click", () => find.show());
  byId("help").addEventListener("click", () => showHelp());
  const look = byId<HTMLSelectElement>("look");
  look.value = document.documentElement.dataset.theme ?? "";
  look.addEventListener("change", () => theme(look.value));
  // What is chosen from a menu closes it.
  document.addEventListener("click", (e) => (e.target as HTMLElement).closest<HTMLElement>("[popover]:popover-open button, [popover]:popover-open a")?.closest<HTMLElement>("[popover]")!.hidePopover());
  window.addEventListener("keydown", (e) => {
    if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === "k") {
      e.preventDefault();
      e.stopPropagation(); // editors have other uses for it
      find.show();
    } else if (e.key === "?" && !(e.target as HTMLElement).closest("input:not([type=range]), textarea, select, dialog, [contenteditable=true]")) {
      e.preventDefault();
      showHelp();
    }
  }, { capture: true });
}
