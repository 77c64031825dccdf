// The explorer page. A pane is a row from the server; see view.ts.

import { effect } from "@preact/signals-core";
import { announce, byId } from "./dom";
import { maxAddress, parse, query, type Spec } from "./address";
import { choose, strips, tabs } from "./desk";
import { doors, showDevices } from "./header";
import { pins, redrawn, release } from "./link";
import { runner } from "./run";
import { bindKeys, finder } from "./shell";
import { showShare } from "./share";
import { Socket } from "./socket";
import { books, forms, front, rows, sessions, share, sheet, tabbed, views, type Desk } from "./state";
import { View } from "./view";
import type { Device, Hello, Sample, Session, Values } from "./wire";

const socket = new Socket();
const content = byId("content");
let sample: Sample | null = null; // the program of the Run door, with its arguments
let devices: Device[] | null = null; // once they are known

// ---- the address is the state -------------------------------------------

function readAddress(): Spec[] {
  const all = parse(location.search);
  const known = all.filter((v) => rows.value.some((r) => r.name === v.pane));
  const other = all.filter((v) => !known.includes(v)).map((v) => v.pane).join(", ");
  byId("other").textContent = "The address names what is no pane of this Tilus Lab: " + other + ". Find (Ctrl K) lists the panes.";
  byId("other").hidden = !other;
  const named = /[?&]p=/.test(location.search);
  if (running()) {
    const list: Spec[] = named && known.length ? known : [{ pane: "program", values: {} }];
    const v = list.find((v) => v.pane === "program");
    if (v) v.values.src ??= sample!.program;
    return list;
  }
  if (named && known.length) return known;
  return [{ pane: "layout", values: named ? {} : known[0]?.values ?? {} }, { pane: "reinterpret", values: {} }];
}

// running reports whether the address is that of the Run door.
function running() {
  return sample !== null && location.hash === "#run";
}

// wrote makes one history entry for each run of keystrokes: the first change after a
// commit or a pause adds it, the others replace it.
const pause = 2000; // ms
let editing = false;
let changed = 0; // when the address last did
let long = false;
function wrote(commit: boolean) {
  redrawTabs();
  titles();
  const now = query(views.value) + (document.body.classList.contains("embed") ? "&embed=1" : "") + location.hash;
  const was = long;
  long = now.length > maxAddress;
  if (long && !was) announce("This is too long for an address; a link or a reload will not have it.");
  byId("long").hidden = !long;
  if (long) return;
  if (now !== location.search + location.hash) {
    if (editing && performance.now() - changed < pause) history.replaceState(null, "", now);
    else history.pushState(null, "", now);
    changed = performance.now();
  }
  editing = !commit;
}

window.addEventListener("popstate", () => {
  editing = false;
  show(readAddress());
});

// ---- panes ------------------------------------------------------------------

const maxPanes = 16;
const rowOf = (name: string) => rows.value.find((r) => r.name === name);

const desk: Desk = { socket, open, split, close, wrote };

// titles says in the heading and in the window's title what is at hand. What is open at
// first has a question for both panes; others say who they are above their pictures.
function titles() {
  const names = (tabbed.value && front.value ? [front.value] : views.value).map((v) => v.title);
  const opening = views.value.map((v) => v.row.name + (v.values._name ?? "")).join() === "layout,reinterpret";
  const heading = byId("title");
  heading.textContent = opening ? question : names.join(", ");
  heading.classList.toggle("visually-hidden", !opening);
  document.title = names.join(", ") + " – Tilus Lab";
}
const question = byId("title").textContent!;

function show(list: Spec[]) {
  const same = list.length === views.value.length && list.every((v, i) => v.pane === views.value[i].row.name);
  if (same) {
    list.forEach((v, i) => views.value[i].set(v.values));
    redrawTabs();
    titles();
    return;
  }
  // Panes that stay keep their pictures until new ones come.
  const old = [...views.value];
  const next = list.map((s) => {
    const i = old.findIndex((v) => v.row.name === s.pane);
    if (i < 0) return new View(rowOf(s.pane)!, s.values, desk);
    const [v] = old.splice(i, 1);
    return v;
  });
  for (const v of old) v.dispose();
  views.value = next;
  place();
  next.forEach((v, i) => v.set(list[i].values));
}

// insert adds a pane behind another, or at the top.
function insert(name: string, values: Values, after?: View) {
  const row = rowOf(name);
  if (!row) return null;
  if (views.value.length >= maxPanes) {
    announce("there are " + maxPanes + " panes already");
    return null;
  }
  const v = new View(row, values, desk);
  const list = [...views.value];
  list.splice(after ? list.indexOf(after) + 1 : 0, 0, v);
  views.value = list;
  place();
  v.draw();
  return v;
}

// open adds a pane and goes there.
function open(name: string, values: Values, after?: View) {
  const v = insert(name, values, after);
  if (!v) return;
  choose(v);
  wrote(true);
  v.root.scrollIntoView({ block: "start" });
  v.focus();
  announce("opened " + v.title);
}

// split puts a copy of a pane beside it.
function split(v: View) {
  const copy = insert(v.row.name, { ...v.values, _name: "", _half: "1" }, v);
  if (!copy) return;
  v.place({ ...v.values, _half: "1" });
  choose(copy);
  wrote(true);
  copy.focus();
  announce("split " + v.title);
}

function close(v: View) {
  if (views.value.length === 1) {
    announce("the last pane stays");
    return;
  }
  const at = views.value.indexOf(v);
  const list = views.value.filter((x) => x !== v);
  v.dispose();
  views.value = list;
  // A pane that stood beside the closed one, and beside no other, takes the whole width.
  list.forEach((x, i) => { if (x.half && !list[i - 1]?.half && !list[i + 1]?.half) x.place({ ...x.values, _half: "" }); });
  place();
  const next = list[Math.min(at, list.length - 1)];
  choose(next);
  redrawn(v);
  wrote(true);
  next.focus();
  announce("closed " + v.title);
}

let shown: ReturnType<typeof runner> | null = null;

function place() {
  // Moving an element reloads nothing but loses its scroll position and focus, so those that stand right stay.
  views.value.forEach((v, i) => { if (content.children[i] !== v.root) content.insertBefore(v.root, content.children[i] ?? null); });
  while (content.children.length > views.value.length) content.lastElementChild!.remove();
  placeRun();
}

// placeRun puts what runs a program where the address asks for it: in the pane of
// the Run door, or below the panes of the start page.
function placeRun() {
  shown?.fields.remove();
  shown?.out?.remove();
  shown = null;
  if (!devices || !sample) return;
  const view = running() ? views.value.find((v) => v.row.name === "program") ?? null : null;
  if (!view && location.search !== "" && !running()) return;
  shown = runner(socket, sample, devices, view);
  if (view) {
    view.fieldset.append(shown.fields);
    view.fieldset.after(shown.out!);
  } else content.append(shown.fields);
}

// ---- start ------------------------------------------------------------------

const redrawTabs = tabs();
effect(titles);
strips();

byId("share").addEventListener("click", showShare);
const find = finder(socket, open, () => [
  ["Share this page", showShare],
  ...views.value.map((v) => ["Rename " + v.title, () => v.rename()] as [string, () => void]),
  ...views.value.map((v) => ["Duplicate " + v.title, () => open(v.row.name, { ...v.values, _name: "" }, v)] as [string, () => void]),
  ...views.value.map((v) => ["Split " + v.title, () => split(v)] as [string, () => void]),
  ...views.value.filter(() => views.value.length > 1).map((v) => ["Close " + v.title, () => close(v)] as [string, () => void]),
]);
bindKeys(find);
byId("add").addEventListener("click", () => find.show("pane"));
window.addEventListener("keydown", (e) => {
  if (e.key === "Escape" && (pins.value.length || views.value.some((v) => v.values.el)) && !(e.target as HTMLElement).closest("dialog, input, textarea, select, [contenteditable=true]")) release();
});

socket.handlers.set("vars", (list: Session[]) => {
  sessions.value = list;
  for (const v of views.value) {
    v.showBindings();
    if (v.bound) v.draw();
  }
});

// A cell asked to show a value: bind the first pane that fits to it.
socket.handlers.set("explore", (x: { session: string; name: string; form: string; text: string }) => {
  const name = x.form === "program" ? "program" : x.form === "layout" ? "layout" : "see";
  const param = { program: "src", layout: "e", see: "x" }[name]!;
  const known = sessions.value.some((s) => s.session === x.session && s.vars.some((v) => v.name === x.name));
  const value = known ? "$" + x.name + "@" + x.session : x.text;
  const v = views.value.find((v) => v.row.name === name) ?? insert(name, {});
  if (!v) return;
  v.set({ ...v.values, [param]: value });
  front.value = v;
  wrote(true);
  announce("now showing " + (x.name || "a value from a notebook"));
});

// New colours of the page are new pictures.
effect(() => {
  sheet.value;
  for (const v of views.peek()) v.draw();
});

let first = true;
socket.opened = async () => {
  const hello: Hello = await socket.ask("hello", {});
  rows.value = hello.panes;
  forms.value = hello.forms;
  books.value = hello.notebooks;
  sample = hello.sample ?? null;
  sessions.value = hello.vars;
  share.value = hello.share ?? { local: true, static: "" };
  if (!first) {
    // The connection is new, the state is the page's.
    for (const v of views.value) v.draw();
    if (!looking(hello)) await offerDevices();
    return;
  }
  first = false;
  doors(hello);
  show(readAddress());
  if (looking(hello)) return;
  await offerDevices();
};

// offerDevices has programs run on the devices that there are now. Fields that offer these already stay as
// they are; where nothing answers, so do those that there were.
async function offerDevices() {
  const list = await showDevices(socket) ?? devices ?? [];
  if (JSON.stringify(list) === JSON.stringify(devices)) return;
  devices = list;
  placeRun();
}

// looking says whether this page may not use devices, and says so in the header.
function looking(hello: Hello) {
  const text = hello.offline ? "pictures only; no server" : hello.role === "view" ? "you may look, not run" : "";
  if (text) byId("devices").textContent = text;
  return text !== "";
}
