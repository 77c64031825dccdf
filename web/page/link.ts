// Linking: what is pointed at, pinned or under the caret lights up in every open pane.
// Elements of one pane belong together by their keys. Those of different panes do when
// they stand at the same place of a tensor or come from the same line of the same
// program; elements of the same thread are kin.

import { signal } from "@preact/signals-core";
import { announce, upper } from "./dom";
import { views } from "./state";
import type { Picture } from "./picture";
import type { View } from "./view";
import type { Item } from "./wire";

// A pin is by name, so that it outlives a picture that is drawn again.
interface Pin {
  view: View;
  picture: string;
  id: string;
}

interface Chosen {
  view: View;
  picture: Picture | null; // null for a line of the program itself
  item: Item | null;
  line: number; // of the program it comes from; 0 for none
  members?: [number, number][]; // thread and slot of what a factor of the view's layout leads to
}

// What a pinned element is in one pane.
export interface Stop {
  view: View;
  picture: Picture;
  item: number;
  label: string;
}

export const pins = signal<Pin[]>([]);
export const strip = signal<Stop[]>([]); // the pinned element's way through the panes

let hover: Chosen | null = null;

// Index finds elements of one picture. It is made when something is looked for: most
// pictures that are drawn while a person types are never pointed at.
export class Index {
  private keys = new Map<number, Item[]>();
  private threads = new Map<number, Item[]>();
  private places = new Map<string, Item[]>();
  private names = new Map<string, Item>();
  private lines = new Map<number, Item[]>();
  private slots = new Map<string, Item[]>();

  constructor(private ids: Item[]) {}

  private made() {
    const put = <K>(m: Map<K, Item[]>, k: K, e: Item) => {
      const list = m.get(k);
      if (list) list.push(e);
      else m.set(k, [e]);
    };
    for (const e of this.ids) {
      for (const k of e[5]) put(this.keys, k, e);
      if (e[7] >= 0) put(this.threads, e[7], e);
      if (e[9]) put(this.places, e[9].join(), e);
      if (e[7] >= 0 && e[8] !== undefined) put(this.slots, e[7] + "," + e[8], e);
      const line = lineOf(e);
      if (line) put(this.lines, line, e);
      this.names.set(e[0], e);
    }
    this.ids = [];
    return this;
  }

  private get all() {
    return this.ids.length ? this.made() : this;
  }

  thread = (n: number) => this.all.threads.get(n) ?? [];
  line = (n: number) => this.all.lines.get(n) ?? [];
  place = (at: number[]) => this.all.places.get(at.join()) ?? [];
  held = (thread: number, slot: number) => this.all.slots.get(thread + "," + slot) ?? [];
  named = (id: string) => this.all.names.get(id);
  keyed = (keys: number[]) => keys.length === 1 ? this.all.keys.get(keys[0]) ?? [] : keys.flatMap((k) => this.all.keys.get(k) ?? []);
}

// lineOf is the line of the program that a line of a listing comes from.
function lineOf(e: Item) {
  return /(^|\.)line\d+$/.test(e[0]) ? e[5][0] ?? 0 : 0;
}

const firstElement = 2 ** 25;

// hits are the elements of a picture that are the chosen one.
function hits(c: Chosen, v: View, p: Picture): Item[] {
  const ofProgram = v.values.src !== undefined && v.values.src === c.view.values.src;
  const sameProgram = c.line > 0 && ofProgram;
  if (c.members) return v === c.view ? c.members.flatMap(([t, s]) => p.index.held(t, s)) : [];
  if (!c.item) return sameProgram ? p.index.line(c.line) : [];
  if (v === c.view) return p.index.keyed(c.item[5]);
  // Elements of a program's tensors have one key in all of its panes; lines have small ones.
  const elements = ofProgram ? c.item[5].filter((k) => k >= firstElement) : [];
  if (sameProgram || elements.length) return [...(sameProgram ? p.index.line(c.line) : []), ...p.index.keyed(elements)];
  const same = v.row === c.view.row && p.name === c.picture!.name ? p.index.named(c.item[0]) : undefined;
  if (same) return [same];
  return c.item[9] ? p.index.place(c.item[9]) : [];
}

function chosen(): Chosen[] {
  const out: Chosen[] = [];
  for (const pin of pins.value) {
    const picture = pin.view.pictures.find((p) => p.name === pin.picture);
    const item = picture?.index.named(pin.id);
    if (picture && item) out.push({ view: pin.view, picture, item, line: lineOf(item) });
  }
  if (hover) out.push(hover);
  return out;
}

// relink paints all panes anew.
export function relink() {
  const all = chosen();
  let n = 0; // elements that the last one lights
  const last = all[all.length - 1];
  const lines = new Map<View, number>();
  for (const v of views.value) {
    let first: Item | null = null; // what the last one is here
    for (const p of v.pictures) {
      const lit = new Set<Item>(), kin = new Set<Item>();
      for (const c of all) {
        const found = hits(c, v, p);
        for (const e of found) lit.add(e);
        if (c === last) n += found.length;
        if (c === last && c.item) first ??= v === c.view ? c.item : found[0] ?? null;
        if (c.item && c.item[7] >= 0) for (const e of p.index.thread(c.item[7])) kin.add(e);
      }
      p.paint([...lit], hover && p === hover.picture ? hover.item : null, [...kin]);
    }
    let line = 0;
    for (const c of all) if (c.line && c.item && v.values.src !== undefined && v.values.src === c.view.values.src) line = c.line;
    lines.set(v, line);
    v.terms(first);
    const mine = all.filter((c) => c.view === v && c.item).pop();
    v.tell(mine ? upper(mine.item![6]) + "." : null);
  }
  for (const [v, line] of lines) v.lightLine(line);
  return n;
}

// follow lists what the first pinned element is in each pane.
function follow() {
  const [c] = chosen().filter((c) => c !== hover);
  const out: Stop[] = [];
  if (c) for (const v of views.value) {
    for (const p of v.pictures) {
      const e = p === c.picture ? c.item! : hits(c, v, p).find((e) => v !== c.view || e !== c.item);
      if (e) out.push({ view: v, picture: p, item: p.ids.indexOf(e), label: e[6] });
    }
  }
  strip.value = out;
}

// light shows what is pointed at.
export function light(view: View, picture: Picture, item: Item, aloud: boolean) {
  hover = { view, picture, item, line: lineOf(item) };
  const n = relink();
  if (aloud) announce(item[6] + "; " + n + " cells lit");
}

// caret shows the line of a program that is being edited; 0 for none.
export function caret(view: View, line: number) {
  hover = line ? { view, picture: null, item: null, line } : null;
  relink();
}

// factor shows what the factor of a layout under the caret leads to; null for none.
export function factor(view: View, members: [number, number][] | null) {
  if (!members && !hover?.members) return;
  hover = members ? { view, picture: null, item: null, line: 0, members } : null;
  relink();
}

// first is the element of a view that its layout's factors are told for where none is
// pointed at: the pinned one, else thread 0, slot 0.
export function first(view: View): [number, number] {
  const c = chosen().find((c) => c !== hover && c.view === view && c.item && c.item[7] >= 0 && c.item[8] !== undefined);
  return c ? [c.item![7], c.item![8]!] : [0, 0];
}

// dark ends pointing; what is pinned stays lit.
export function dark() {
  if (!hover) return;
  hover = null;
  relink();
}

// pin keeps an element lit, or lets it go; more keeps the others too.
export function pin(view: View, picture: Picture, item: Item, more: boolean) {
  const is = (p: Pin) => p.view === view && p.picture === picture.name && p.id === item[0];
  if (pins.value.some(is)) pins.value = pins.value.filter((p) => !is(p));
  else pins.value = [...(more ? pins.value : []), { view, picture: picture.name, id: item[0] }];
  light(view, picture, item, true);
  follow();
}

// hold pins an element alone, or lets go of all.
export function hold(view: View, picture: Picture, item: Item, on: boolean) {
  pins.value = on ? [{ view, picture: picture.name, id: item[0] }] : [];
  light(view, picture, item, true);
  follow();
}

// release lets go of what is pinned, and of elements that are followed.
export function release() {
  pins.value = [];
  hover = null;
  relink();
  follow();
  for (const v of views.value) if (v.values.el) v.go({ el: "" });
}

// redrawn is called when a view has new pictures or is gone.
export function redrawn(view: View) {
  if (hover?.view === view && (hover.picture || hover.members)) hover = null;
  const kept = pins.value.filter((p) => views.value.includes(p.view));
  if (kept.length !== pins.value.length) pins.value = kept;
  relink();
  follow();
}
