// What stands around the panes: their tabs on a small screen, and the strip that
// follows a pinned element through them.

import { effect } from "@preact/signals-core";
import { html, nothing, render } from "lit-html";
import { byId } from "./dom";
import { light, pins, release, strip } from "./link";
import { front, tabbed, views } from "./state";
import type { View } from "./view";

// choose brings a pane to the front, where only one shows.
export function choose(v: View) {
  front.value = v;
}

function key(e: KeyboardEvent) {
  const list = views.value;
  const at = list.indexOf(front.value!);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: list.length - 1 }[e.key];
  if (to === undefined) return;
  e.preventDefault();
  const v = list[(to + list.length) % list.length];
  choose(v);
  byId(v.id + "-tab").focus();
}

// tabs keeps the tabs and what they show. named is called again when a title changes.
export function tabs() {
  const draw = () => {
    const list = views.value;
    if (!list.includes(front.value!)) front.value = list[0] ?? null;
    const on = tabbed.value;
    const names = new Map<string, number>();
    for (const v of list) {
      const n = (names.get(v.name) ?? 0) + 1;
      names.set(v.name, n);
      v.count(n);
    }
    for (const v of list) {
      v.root.classList.toggle("behind", on && v !== front.value);
      v.root.setAttribute("aria-labelledby", v.id + (on ? "-tab" : "-title"));
      if (on) v.root.setAttribute("role", "tabpanel");
      else v.root.removeAttribute("role");
    }
    const bar = byId("tabs");
    bar.hidden = !on;
    render(on ? html`<div role="tablist" aria-label="Panes" @keydown=${key}>${list.map((v) => html`<button type="button" role="tab" id=${v.id + "-tab"} aria-controls=${v.id} aria-selected=${v === front.value} tabindex=${v === front.value ? 0 : -1} @click=${() => choose(v)}>${v.title}</button>`)}</div>` : nothing, bar);
  };
  effect(draw);
  return draw;
}

// strips keeps the strip.
export function strips() {
  effect(() => {
    const stops = strip.value;
    const bar = byId("strip");
    bar.hidden = pins.value.length === 0;
    render(pins.value.length === 0 ? nothing : html`<h2>Following one element</h2><ol>${stops.map((s) => html`<li><button type="button" @click=${() => {
      choose(s.view);
      s.picture.canvas.scrollIntoView({ block: "center" });
      s.picture.reveal(s.item);
      s.picture.canvas.focus({ preventScroll: true });
      light(s.view, s.picture, s.picture.ids[s.item], true);
    }}><b>${s.view.title}</b> ${s.label}</button></li>`)}</ol><button type="button" class="quiet" @click=${release}>Let go <kbd>Esc</kbd></button>`, bar);
  });
}
