// The header of both pages: the doors and the badge of devices.

import { byId, make, prefix } from "./dom";
import type { Socket } from "./socket";
import type { Device, Hello } from "./wire";

// showDevices fills the badge. Without an answer there is no list.
export async function showDevices(socket: Socket): Promise<Device[] | null> {
  const badge = byId("devices");
  try {
    const list: Device[] = await socket.ask("devices", {});
    const gpu = list.filter((d) => d.name.startsWith("cuda"));
    badge.classList.toggle("gpu", gpu.length > 0);
    badge.textContent = gpu.length ? gpu.map((d) => d.name + ": " + d.detail).join(", ")
      : list.length ? "no GPU; runs on " + list.map((d) => d.name).join(", ") : "pictures only; no device connected";
    badge.title = badge.textContent;
    return list;
  } catch (e) {
    badge.textContent = "devices: " + (e as Error).message;
    return null;
  }
}

export function doors(hello: Hello) {
  const list: [string, string, string][] = [];
  if (hello.notebooks.length) list.push(["nb/" + (hello.notebooks.some((n) => n.startsWith("01")) ? "01" : ""), "Learn", "the first lesson"]);
  list.push(["?v=1&p=see", "See", "paste any notation"]);
  if (hello.sample) list.push(["?v=1#run", "Run", "FP16 × INT6"]);
  byId("doors").replaceChildren(...list.map(([to, name, what]) =>
    make("a", { href: prefix + to }, make("b", {}, name), make("span", {}, what))));
}
