// Running a program on a device: the only thing here that a person starts.

import { make } from "./dom";
import { Failure, type Socket } from "./socket";
import { variable } from "./state";
import type { View } from "./view";
import type { Device, Sample } from "./wire";

function unbound(value: string) {
  return value.startsWith("$") ? variable(value).text ?? value : value;
}

// runner is what asks for arguments and a device, and runs the program of a view or
// that of a field of its own.
export function runner(socket: Socket, sample: Sample, devices: Device[], view: View | null) {
  const program = make("textarea", { id: "run-program", rows: sample.program.trimEnd().split("\n").length + 1, spellcheck: "false" });
  program.value = sample.program;
  const args = make("textarea", { id: "run-args", rows: (sample.args ?? []).length + 1, spellcheck: "false" });
  args.value = (sample.args ?? []).join("\n");
  const device = make("select", { id: "run-device" }, ...["auto", ...devices.map((d) => d.name)].map((d) => make("option", {}, d)));
  const out = make("pre", { id: "run-out", tabindex: "0", role: "status", "aria-label": "Result of the run", hidden: true });
  const go = make("button", { class: "act", type: "button" }, "Run on the device");
  go.addEventListener("click", async () => {
    go.disabled = true;
    out.hidden = false;
    out.textContent = "running …";
    try {
      const r = await socket.ask("run", { program: view ? unbound(view.values.src) : program.value, args: args.value.split("\n").filter((s) => s.trim()), device: device.value });
      out.textContent = r ? "on " + r.device + "\n" + r.text : "stopped";
    } catch (e) {
      out.textContent = e instanceof Failure ? e.problems.map((p) => (p.line ? "line " + p.line + ", column " + p.col + ": " : "") + p.msg + (p.help ? "\n\t" + p.help : "")).join("\n") : String(e);
    } finally {
      go.disabled = false;
    }
  });
  const field = (input: HTMLElement, title: string, kind: string) => make("div", { class: "field " + kind }, make("label", { for: input.id }, title), input);
  if (view) {
    args.rows = Math.max(2, args.rows - 1);
    return { fields: make("div", { class: "run", id: "run", role: "group", "aria-label": "Run the program" }, field(args, "Arguments, one a line", "args"), field(device, "Device", "choice"), go), out };
  }
  return {
    fields: make("section", { class: "pane", id: "run", "aria-labelledby": "run-title" },
      make("header", {}, make("h2", { id: "run-title" }, "Run FP16 × INT6"), make("p", {}, "Runs in a worker process: on the GPU when there is one, else on the interpreter.")),
      make("div", { class: "fields" }, field(program, "Program", "program"), field(args, "Arguments, one a line", "program"), field(device, "Device", "choice"), go), out),
    out: null,
  };
}
