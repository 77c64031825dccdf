// The widgets of ipywidgets that lab.Slider, lab.Powers, lab.Select and lab.Interact
// make, as elements of the page. Their state is that of the models on the other side.

import { make } from "./dom";

interface Model {
  state: any;
  show: (() => void)[]; // put the state into elements
  busy?: boolean;
  again?: boolean;
}

export interface Comm {
  step: string;
  comm_id: string;
  data: any;
}

const ref = (s: unknown) => (typeof s === "string" && s.startsWith("IPY_MODEL_") ? s.slice(10) : "");

export class Widgets {
  private models = new Map<string, Model>();

  // tell sends a message of a model and resolves when it was handled.
  constructor(private tell: (comm: string, data: unknown, from: HTMLElement) => Promise<void>) {}

  // comm takes a message of the other side.
  comm(m: Comm) {
    if (m.step === "open") this.models.set(m.comm_id, { state: m.data.state ?? {}, show: [] });
    else if (m.step === "close") this.models.delete(m.comm_id);
    else if (m.data?.method === "update") {
      const model = this.models.get(m.comm_id);
      if (!model) return;
      Object.assign(model.state, m.data.state);
      for (const f of model.show) f();
    }
  }

  // draw is the element of a model, or undefined when the model is not known.
  draw(id: string): HTMLElement | undefined {
    const model = this.models.get(id);
    if (!model) return undefined;
    const s = model.state;
    switch (s._model_name) {
      case "VBoxModel":
        return make("div", { class: "column" }, ...(s.children ?? []).map((c: unknown) => this.draw(ref(c))));
      case "IntSliderModel":
        return this.slider(id, model, "value", s.min, s.max, (v) => String(v));
      case "SelectionSliderModel":
        return this.slider(id, model, "index", 0, s._options_labels.length - 1, (v) => s._options_labels[v]);
      case "DropdownModel":
        return this.list(id, model);
    }
    return make("pre", {}, "this page cannot draw a " + s._model_name);
  }

  private slider(id: string, model: Model, key: string, min: number, max: number, text: (v: number) => string) {
    const value = make("output", {});
    const box = make("input", { type: "range", min, max, step: 1, "aria-label": model.state.description });
    const show = () => {
      box.value = model.state[key];
      value.textContent = text(model.state[key]);
      box.setAttribute("aria-valuetext", value.textContent);
    };
    box.addEventListener("input", () => {
      model.state[key] = Number(box.value);
      show();
      this.send(id, model, key, box);
    });
    show();
    model.show.push(show);
    return make("label", { class: "control" }, make("span", {}, model.state.description), box, value);
  }

  private list(id: string, model: Model) {
    const box = make("select", {}, ...model.state._options_labels.map((o: string) => make("option", {}, o)));
    const show = () => { box.selectedIndex = model.state.index; };
    box.addEventListener("change", () => {
      model.state.index = box.selectedIndex;
      this.send(id, model, "index", box);
    });
    show();
    model.show.push(show);
    return make("label", { class: "control" }, make("span", {}, model.state.description), box);
  }

  // send tells the other side the newest state; while one message is on its way the
  // next waits, and those between are left out.
  private async send(id: string, model: Model, key: string, from: HTMLElement) {
    if (model.busy) {
      model.again = true;
      return;
    }
    model.busy = true;
    try {
      do {
        model.again = false;
        await this.tell(id, { method: "update", state: { [key]: model.state[key] }, buffer_paths: [] }, from);
      } while (model.again);
    } finally {
      model.busy = false;
    }
  }
}
