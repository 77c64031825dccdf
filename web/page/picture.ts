// One picture: it shows an SVG and finds elements by arithmetic on their boxes.

import { announce, make } from "./dom";
import { dark, hold, Index, light, pin, release } from "./link";
import { forms } from "./state";
import { twin } from "./twin";
import type { View } from "./view";
import type { Item, PictureJSON, Values } from "./wire";

const svgNS = "http://www.w3.org/2000/svg";
const fonts = getComputedStyle(document.documentElement).getPropertyValue("--mono");

const maxWhole = 1.3e6; // pixels of a picture whose texts are all drawn at once

const tallest = 1110; // pixels of a picture that shows as a whole; others scroll within a part of the window

// Texts are a canvas with the texts of a large picture, over the part of its SVG that
// shows: pixels that nobody sees would cost most of the time.
class Texts {
  readonly canvas = make("canvas", { class: "texts", "aria-hidden": "true" });
  private waiting = false;
  private later = 0;
  private seen = [0, 0, 0, 0]; // of the picture: left, top, right, bottom
  private box: HTMLElement | null = null;
  private zoom = () => 1;

  constructor(private p: PictureJSON) {}

  // follow keeps the texts where the window shows the box, and the box the picture.
  follow(box: HTMLElement, zoom: () => number) {
    this.box = box;
    this.zoom = zoom;
    box.addEventListener("scroll", () => this.soon(), { passive: true });
    new ResizeObserver(() => {
      shown.add(this);
      this.soon();
    }).observe(box);
  }

  // soon draws what has come into view, before the next frame.
  soon() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      const box = this.box;
      if (!box?.isConnected) return;
      const at = box.getBoundingClientRect();
      this.view(Math.max(0, -at.top), Math.min(at.height, window.innerHeight - at.top));
      // The rest of one that is not too large comes when nobody waits: pages are printed and photographed.
      clearTimeout(this.later);
      if (this.p.width * this.p.height < maxWhole) this.later = setTimeout(() => { if (box.isConnected) this.whole(); }, 250);
    });
  }

  // view draws what lies between two heights of the box.
  view(from: number, to: number) {
    const box = this.box!, z = this.zoom();
    if (to > from) this.show(box.scrollLeft / z, (box.scrollTop + from) / z, box.clientWidth / z, (to - from) / z);
  }

  // whole draws all, for paper.
  whole() {
    this.show(0, 0, this.p.width, this.p.height);
  }

  // show draws what lies in a part of the picture and around it, if that is not there yet.
  show(left: number, top: number, width: number, height: number) {
    const { p, canvas } = this;
    const [l, t, r, b] = this.seen;
    if (left >= l && top >= t && Math.min(left + width, p.width) <= r && Math.min(top + height, p.height) <= b) return;
    // Scrolling a little needs nothing new.
    const x0 = Math.max(0, left - 50), y0 = Math.max(0, top - 50);
    const x1 = Math.min(p.width, left + width + 50), y1 = Math.min(p.height, top + height + 50);
    this.seen = [x0, y0, x1, y1];
    const scale = Math.min(window.devicePixelRatio || 1, 2);
    canvas.width = Math.round((x1 - x0) * scale);
    canvas.height = Math.round((y1 - y0) * scale);
    Object.assign(canvas.style, { left: x0 + "px", top: y0 + "px", width: x1 - x0 + "px", height: y1 - y0 + "px" });
    const c = canvas.getContext("2d", { willReadFrequently: true })!; // drawn once: a GPU would only copy it
    c.setTransform(scale, 0, 0, scale, -x0 * scale, -y0 * scale);
    let font = "";
    for (const [y, size, color, anchor, bold, words] of p.texts) {
      if (y < y0 - 4 || y > y1 + size) continue;
      const wanted = (bold ? "bold " : "") + size + "px " + fonts;
      if (font !== wanted) c.font = font = wanted; // setting it is slow
      c.fillStyle = color;
      c.textAlign = anchor === "middle" ? "center" : anchor;
      for (let i = 0; i < words.length; i += 2) {
        const x = words[i] as number, s = words[i + 1] as string;
        const reach = s.length * size; // more than it is wide
        if (x + reach >= x0 && x - reach <= x1) c.fillText(s, x, y);
      }
    }
  }
}

// The texts that the page shows.
const shown = new Set<Texts>();

function all(what: (t: Texts) => void) {
  for (const t of shown) {
    if (t.canvas.isConnected) what(t);
    else shown.delete(t);
  }
}

window.addEventListener("scroll", () => all((t) => t.soon()), { passive: true });
window.addEventListener("resize", () => all((t) => t.soon()));
window.addEventListener("beforeprint", () => all((t) => t.whole()));

function path(name: string) {
  const e = document.createElementNS(svgNS, "path");
  e.setAttribute("class", name);
  return e;
}

export class Picture {
  readonly name: string;
  readonly width: number;
  readonly tall: boolean; // it scrolls within a part of the window
  readonly ids: Item[];
  readonly index: Index;
  readonly figure: HTMLElement;
  readonly canvas: HTMLElement;
  private go: Record<string, Values>; // values that choosing an element sets, by its id
  private current = 0;
  private shown = -1;
  private stage: HTMLElement;
  private caption: HTMLElement;
  private hit = path("hit");
  private here = path("here");
  private kin = path("kin");
  private zoom = 1;
  size: (z: number, aloud?: boolean) => void = () => {};
  private sizes: HTMLElement;
  private map = make("div", { class: "map", "aria-hidden": "true", hidden: true }, make("div", {}));

  constructor(private view: View, p: PictureJSON, before?: Picture) {
    this.name = p.name;
    this.width = p.width;
    this.tall = p.height > tallest;
    this.ids = p.ids;
    this.index = new Index(p.ids);
    this.go = p.go ?? {};
    // Twice as fast as an XML parser; the text comes from our server alone.
    const parsed = document.createElement("template");
    parsed.innerHTML = p.svg;
    const svg = parsed.content.querySelector("svg")!;
    svg.setAttribute("aria-hidden", "true");
    svg.querySelector("title")?.remove(); // else the browser shows it over every cell
    const overlay = document.createElementNS(svgNS, "svg");
    overlay.setAttribute("class", "overlay");
    overlay.setAttribute("width", String(p.width));
    overlay.setAttribute("height", String(p.height));
    overlay.setAttribute("aria-hidden", "true");
    overlay.append(this.kin, this.hit, this.here);
    const texts = p.texts.length ? new Texts(p) : null;
    this.zoom = before?.zoom ?? 1;
    const z = this.zoom;
    // It comes where the one before it stands, or somewhere in the window.
    const was = before?.canvas.getBoundingClientRect();
    const from = Math.max(0, -(was?.top ?? 0)), to = Math.min(window.innerHeight * 0.86, window.innerHeight - (was?.top ?? 0));
    if (to > from) texts?.show((before?.canvas.scrollLeft ?? 0) / z, ((before?.canvas.scrollTop ?? 0) + from) / z, view.figures.clientWidth / z, (to - from) / z);
    all(() => {}); // forget those of pictures that are gone
    this.stage = make("div", { class: "stage" }, svg, texts ? texts.canvas : null, overlay);
    const keys = p.go ? " Arrow keys walk the cells, Enter chooses or pins, Escape clears." : " Arrow keys walk the cells, Enter pins, Escape clears.";
    this.canvas = make("div", {
      class: this.tall ? "canvas tall" : "canvas", tabindex: "0", role: "group", "aria-roledescription": "linked picture",
      "aria-label": p.title + ". " + p.desc + (p.ids.length ? keys : ""),
    }, this.stage);
    if (z !== 1) this.stage.style.setProperty("zoom", String(z));
    texts?.follow(this.canvas, () => this.zoom);
    this.caption = make("figcaption", {}, p.name);
    this.figure = make("figure", { "data-name": p.name }, this.caption, make("div", { class: "frame-of" }, this.canvas, this.map), p.ids.length ? twin(p.title, p.ids) : null);
    if (before) {
      this.current = Math.min(before.current, Math.max(0, p.ids.length - 1));
      requestAnimationFrame(() => { this.canvas.scrollLeft = before.canvas.scrollLeft; this.canvas.scrollTop = before.canvas.scrollTop; });
    }
    this.overview(p.width, p.height);
    this.sizes = this.buttons(p.width, p.height);
    if (p.ids.length) this.listen();
  }

  // overview is a small map of a picture that does not fit: where one is, and a way to
  // go elsewhere. The keys + and - and the wheel with Ctrl change the size.
  private overview(width: number, height: number) {
    const box = this.canvas, view = this.map.firstElementChild as HTMLElement;
    const scale = Math.min(110 / width, 80 / height);
    Object.assign(this.map.style, { width: width * scale + "px", height: height * scale + "px" });
    const show = () => {
      const k = scale / this.zoom;
      // Where most of it shows, the map would only be in the way.
      this.map.hidden = box.scrollWidth * box.scrollHeight < 1.6 * box.clientWidth * box.clientHeight;
      Object.assign(view.style, { left: box.scrollLeft * k + "px", top: box.scrollTop * k + "px", width: Math.min(width * scale, box.clientWidth * k) + "px", height: Math.min(height * scale, box.clientHeight * k) + "px" });
    };
    box.addEventListener("scroll", show, { passive: true });
    new ResizeObserver(show).observe(box);
    const to = (e: PointerEvent) => {
      const at = this.map.getBoundingClientRect(), k = this.zoom / scale;
      box.scrollTo((e.clientX - at.left) * k - box.clientWidth / 2, (e.clientY - at.top) * k - box.clientHeight / 2);
    };
    this.map.addEventListener("pointerdown", (e) => { this.map.setPointerCapture(e.pointerId); to(e); });
    this.map.addEventListener("pointermove", (e) => { if (e.buttons) to(e); });
    const size = this.size = (z: number, aloud = true) => {
      this.zoom = Math.min(8, Math.max(0.125, z));
      this.stage.style.setProperty("zoom", String(this.zoom));
      show();
      box.dispatchEvent(new Event("scroll"));
      if (aloud) announce("size " + Math.round(this.zoom * 100) + " %");
    };
    box.addEventListener("wheel", (e) => {
      if (!e.ctrlKey) return;
      e.preventDefault();
      size(this.zoom * (e.deltaY < 0 ? 1.25 : 0.8));
    }, { passive: false });
    box.addEventListener("keydown", (e) => {
      if (e.ctrlKey || e.metaKey || e.altKey) return;
      if (e.key === "+" || e.key === "=") size(this.zoom * 1.25);
      else if (e.key === "-") size(this.zoom * 0.8);
      else if (e.key === "0") size(1);
      else if (e.key === "f") this.fit(width, height);
      else return;
      e.preventDefault();
    });
  }

  // fit makes the picture as large as the window shows at once.
  private fit(width: number, height: number) {
    const room = this.view.figures.clientWidth - 4;
    this.size(Math.min(2, room / width, (window.innerHeight - 60) / height));
    this.canvas.scrollIntoView({ block: "nearest" });
  }

  // buttons change the size by hand.
  private buttons(width: number, height: number) {
    const button = (text: string, name: string, act: () => void) => {
      const b = make("button", { type: "button", class: "size", "aria-label": name + ": " + this.name, title: name }, text);
      b.addEventListener("click", act);
      return b;
    };
    return make("span", { class: "sizes" }, button("−", "Smaller", () => this.size(this.zoom * 0.8)),
      button("+", "Larger", () => this.size(this.zoom * 1.25)), button("fit", "Fit into the window", () => this.fit(width, height)));
  }

  // link offers the picture in every form. The first is for looking at, the others are files.
  link(address: string) {
    this.caption.append(make("a", { href: address, target: "_blank", rel: "noopener", class: "form" }, "SVG"),
      ...forms.value.filter((f) => f !== "svg").map((f) => make("a", { href: address + "&as=" + f, download: "", class: "form" }, f.toUpperCase())), this.sizes);
  }

  private listen() {
    this.stage.addEventListener("pointermove", (e) => {
      const j = this.find(e);
      if (j === this.shown) return;
      this.shown = j;
      if (j >= 0) light(this.view, this, this.ids[j], false);
      else dark();
    });
    this.stage.addEventListener("pointerleave", () => { this.shown = -1; dark(); });
    this.stage.addEventListener("click", (e) => {
      let j = this.find(e);
      if (j < 0) j = this.shown; // clicks have whole pixels, and some bars few of them
      if (j >= 0) this.choose(j, e.shiftKey);
    });
    this.canvas.addEventListener("keydown", (e) => this.key(e));
    this.canvas.addEventListener("focus", () => {
      if (this.canvas.matches(":focus-visible")) light(this.view, this, this.ids[this.current], true);
    });
    this.canvas.addEventListener("blur", () => dark());
  }

  // choose does what choosing an element is there for, or pins it.
  private choose(j: number, more: boolean) {
    this.current = j;
    const values = this.go[this.ids[j][0]];
    if (values?.el !== undefined) {
      // An element that is followed is pinned too; choosing it again lets it go.
      const on = this.view.values.el !== values.el;
      hold(this.view, this, this.ids[j], on);
      this.view.go(on ? values : { el: "" });
    } else if (values) this.view.go(values);
    else pin(this.view, this, this.ids[j], more);
  }

  private find(e: MouseEvent) {
    const box = this.stage.getBoundingClientRect();
    const x = (e.clientX - box.left) / this.zoom, y = (e.clientY - box.top) / this.zoom;
    return this.ids.findIndex((c) => x >= c[1] && x < c[1] + c[3] && y >= c[2] && y < c[2] + c[4]);
  }

  private key(e: KeyboardEvent) {
    const at = this.ids[this.current];
    const mx = at[1] + at[3] / 2, my = at[2] + at[4] / 2;
    // The nearest cell on that side, counting a step aside four times.
    const nearest = (along: (x: number, y: number) => number, across: (x: number, y: number) => number) => {
      let best = -1, cost = Infinity;
      this.ids.forEach((c, j) => {
        const a = along(c[1] + c[3] / 2 - mx, c[2] + c[4] / 2 - my);
        const b = across(c[1] + c[3] / 2 - mx, c[2] + c[4] / 2 - my);
        if (a > 0.5 && a + 4 * Math.abs(b) < cost) { cost = a + 4 * Math.abs(b); best = j; }
      });
      return best;
    };
    const row = (last: boolean) => {
      let best = this.current;
      this.ids.forEach((c, j) => {
        if (c[2] === at[2] && (last ? c[1] > this.ids[best][1] : c[1] < this.ids[best][1])) best = j;
      });
      return best;
    };
    let to = -1;
    switch (e.key) {
      case "ArrowRight": to = nearest((x) => x, (_, y) => y); break;
      case "ArrowLeft": to = nearest((x) => -x, (_, y) => y); break;
      case "ArrowDown": to = nearest((_, y) => y, (x) => x); break;
      case "ArrowUp": to = nearest((_, y) => -y, (x) => x); break;
      case "Home": to = row(false); break;
      case "End": to = row(true); break;
      case "PageDown": to = nearest((_, y) => y > this.page ? y : -1, (x) => x); break;
      case "PageUp": to = nearest((_, y) => -y > this.page ? -y : -1, (x) => x); break;
      case "Enter": case " ": this.choose(this.current, e.shiftKey); e.preventDefault(); return;
      case "Escape": release(); announce("cleared"); return;
      default: return;
    }
    e.preventDefault();
    if (to < 0) return;
    this.current = to;
    this.reveal(to);
    light(this.view, this, this.ids[to], true);
  }

  // page is how far PageUp and PageDown go: what shows at once, less a little.
  private get page() {
    return Math.min(this.canvas.clientHeight / this.zoom, this.stage.offsetHeight / 2) * 0.8;
  }

  // reveal scrolls until an element is seen.
  reveal(j: number) {
    const box = this.canvas, c = this.ids[j].slice(0, 5).map((n) => typeof n === "number" ? n * this.zoom : 0);
    if (c[1] < box.scrollLeft) box.scrollLeft = c[1] - 20;
    if (c[1] + c[3] > box.scrollLeft + box.clientWidth) box.scrollLeft = c[1] + c[3] - box.clientWidth + 20;
    if (c[2] < box.scrollTop) box.scrollTop = c[2] - 20;
    if (c[2] + c[4] > box.scrollTop + box.clientHeight) box.scrollTop = c[2] + c[4] - box.clientHeight + 20;
  }

  // paint rebuilds the overlay paths: the same element, the cell pointed at, and
  // what else its thread holds.
  paint(hits: Item[], here: Item | null, kin: Item[]) {
    const boxes = (list: Item[], grow: number) => list.map((c) => `M${c[1] - grow} ${c[2] - grow}h${c[3] + 2 * grow}v${c[4] + 2 * grow}h${-c[3] - 2 * grow}z`).join("");
    this.kin.setAttribute("d", boxes(kin, -1));
    this.hit.setAttribute("d", boxes(hits, 0));
    this.here.setAttribute("d", here ? boxes([here], 3) : "");
  }
}
