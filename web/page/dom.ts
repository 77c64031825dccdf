// Small helpers over the page's elements.

export const prefix = document.body.dataset.prefix ?? "/";

export const byId = <E extends HTMLElement = HTMLElement>(id: string) => document.getElementById(id) as E;

type Attribute = string | number | boolean | null | undefined | ((e: Event) => void);

// make is an element with attributes and children; "on…" attributes are listeners.
export function make<K extends keyof HTMLElementTagNameMap>(tag: K, attrs: Record<string, Attribute> = {}, ...children: (Node | string | null | undefined)[]): HTMLElementTagNameMap[K] {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs)) {
    if (typeof v === "function") e.addEventListener(k.slice(2), v as EventListener);
    else if (v === true) e.setAttribute(k, "");
    else if (v !== false && v != null) e.setAttribute(k, String(v));
  }
  e.append(...children.filter((c): c is Node | string => c != null));
  return e;
}

// announce says a text to screen readers.
export function announce(text: string) {
  byId("live").textContent = text;
}

export function upper(s: string) {
  return s.charAt(0).toUpperCase() + s.slice(1);
}

// remember keeps a choice of this browser; "" forgets it.
export function remember(name: string, value: string) {
  try {
    if (value) localStorage.setItem(name, value);
    else localStorage.removeItem(name);
  } catch {
    // Without storage the choice holds until the page is closed.
  }
}

export function remembered(name: string) {
  try {
    return localStorage.getItem(name) ?? "";
  } catch {
    return ""; // storage may be forbidden
  }
}
