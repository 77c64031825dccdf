// The address is the state: v=1, then for each pane p=NAME and what differs from the
// defaults. Names that begin with "_" belong to the page: _name is what a person
// called the pane, _half puts it beside another. parseState of web/http.go reads the same.

import type { Row, Values } from "./wire";

// maxAddress is the longest query in bytes.
export const maxAddress = 8 << 10;

export interface Spec {
  pane: string;
  values: Values;
}

function decode(text: string) {
  return decodeURIComponent(text.replaceAll("+", " "));
}

// parse lists the panes of a query; values before any pane are those of "layout".
export function parse(query: string): Spec[] {
  const out: Spec[] = [];
  const first: Values = {};
  for (const part of query.replace(/^\?/, "").split("&")) {
    const cut = part.indexOf("=");
    if (cut < 0) continue;
    const key = part.slice(0, cut);
    let value: string;
    try {
      value = decode(part.slice(cut + 1));
    } catch {
      continue;
    }
    if (key === "p") out.push({ pane: value, values: {} });
    else (out.length ? out[out.length - 1].values : first)[key] = value;
  }
  return out.length ? out : [{ pane: "layout", values: first }];
}

export function encode(text: string) {
  return encodeURIComponent(text).replaceAll("%20", "+").replaceAll("%2C", ",").replaceAll("%24", "$").replaceAll("%40", "@");
}

// query is the address of panes: what differs from the defaults.
export function query(list: { row: Row; values: Values }[]) {
  let out = "?v=1";
  for (const v of list) {
    out += "&p=" + encode(v.row.name);
    for (const p of v.row.params) if (v.values[p.name] !== p.default) out += "&" + p.name + "=" + encode(v.values[p.name]);
    for (const name of ["_name", "_half"]) if (v.values[name]) out += "&" + name + "=" + encode(v.values[name]);
  }
  return out;
}
