"use strict";
// Pointing at an element, or walking to it by the arrow keys, says what it is and
// frames all that share a key with it. A click holds it, Escape lets go.
const { elements } = JSON.parse(document.getElementById("tilus-lab").textContent);
const stage = document.getElementById("stage");
const said = document.getElementById("said");
const svg = stage.querySelector("svg");
const ns = "http://www.w3.org/2000/svg";
const marks = ["hit", "chosen"].map((name) => {
  const p = document.createElementNS(ns, "path");
  p.setAttribute("class", name);
  p.setAttribute("pointer-events", "none");
  return svg.appendChild(p);
});
const byKey = new Map();
elements.forEach((e, i) => e.k.forEach((k) => byKey.set(k, [...(byKey.get(k) ?? []), i])));
const box = ({ b: [x, y, w, h] }) => "M" + x + " " + y + "h" + w + "v" + h + "h" + -w + "z";
let at = -1, held = false;
function light(i) {
  at = i;
  const kin = new Set(i < 0 ? [] : elements[i].k.flatMap((k) => byKey.get(k)));
  marks[0].setAttribute("d", [...kin].map((j) => box(elements[j])).join(""));
  marks[1].setAttribute("d", i < 0 ? "" : box(elements[i]));
  said.textContent = i < 0 ? "" : elements[i].l;
}
function under(event) {
  const p = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  return elements.findIndex(({ b: [x, y, w, h] }) => p.x >= x && p.x < x + w && p.y >= y && p.y < y + h);
}
if (elements.length) {
  stage.tabIndex = 0;
  svg.addEventListener("pointermove", (event) => { if (!held) light(under(event)); });
  svg.addEventListener("pointerleave", () => { if (!held) light(-1); });
  svg.addEventListener("click", (event) => { const i = under(event); held = i >= 0; light(i); });
  stage.addEventListener("keydown", (event) => {
    const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [0, 0];
    if (event.key === "Escape") { held = false; light(-1); }
    if (!dx && !dy) return;
    event.preventDefault();
    if (at < 0) return light(0);
    const [x, y] = elements[at].b;
    let best = -1, least = Infinity;
    elements.forEach(({ b: [a, b] }, i) => {
      const along = (a - x) * dx + (b - y) * dy, across = Math.abs((a - x) * dy) + Math.abs((b - y) * dx);
      if (along > 0 && along + 3 * across < least) { least = along + 3 * across; best = i; }
    });
    if (best >= 0) { held = true; light(best); }
  });
} else {
  said.remove();
}
