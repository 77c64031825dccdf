// The picture as a table, for those who read and do not look, made when it is opened.

import { make } from "./dom";
import type { Item } from "./wire";

export function twin(name: string, ids: Item[]) {
  const box = make("details", { class: "twin" }, make("summary", {}, "as a table"));
  box.addEventListener("toggle", () => {
    if (box.open && box.childElementCount === 1) box.append(make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": name + " as a table" }, table(name, ids)));
  });
  return box;
}

function table(name: string, ids: Item[]) {
  const out = make("table", {}, make("caption", {}, name));
  const head = make("tr", {}), body = make("tbody", {});
  const cell = (text: string | number, scope?: string) => scope ? make("th", { scope }, String(text)) : make("td", {}, String(text));
  // Elements with places of a matrix stand in rows and columns, where no place has two.
  const rows = new Map<number, Map<number, Item>>();
  let square = ids.length > 0, cols = 0, twice = false;
  for (const e of ids) {
    const at = e[9];
    if (!at || at.length !== 2) { square = false; break; }
    let row = rows.get(at[0]);
    if (!row) rows.set(at[0], row = new Map());
    twice ||= row.has(at[1]);
    row.set(at[1], e);
    cols = Math.max(cols, at[1] + 1);
  }
  if (square && !twice) {
    head.append(cell("row", "col"), ...Array.from({ length: cols }, (_, c) => cell(c, "col")));
    for (const [r, row] of [...rows].sort((a, b) => a[0] - b[0])) {
      body.append(make("tr", {}, cell(r, "row"), ...Array.from({ length: cols }, (_, c) => {
        const e = row.get(c);
        return cell(e ? "thread " + e[7] + ", slot " + e[8] : "");
      })));
    }
  } else {
    head.append(cell("", "col"), cell("what it says", "col"));
    ids.forEach((e, i) => body.append(make("tr", {}, cell(i + 1, "row"), cell(e[6]))));
  }
  out.append(make("thead", {}, head), body);
  return out;
}
