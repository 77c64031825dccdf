// The widgets of ipywidgets that lab.Slider, lab.Powers, lab.Select and lab.Interact
// make, as elements of the page. Their state is that of the models on the other side.

import { make } from "./socket.js";

const ref = (s) => (typeof s === "string" && s.startsWith("IPY_MODEL_") ? s.slice(10) : "");

export class Widgets {
  // tell(comm, data, element) sends a message of a model and resolves when it was handled.
  constructor(tell) {
    this.tell = tell;
    this.models = new Map(); // comm -> { state, show: functions that put the state into elements }
  }

  // comm takes a message of the other side.
  comm(m) {
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
  draw(id) {
    const model = this.models.get(id);
    if (!model) return undefined;
    const s = model.state;
    switch (s._model_name) {
      case "VBoxModel":
        return make("div", { class: "column" }, ...(s.children ?? []).map((c) => this.draw(ref(c))));
      case "IntSliderModel":
        return this.slider(id, model, "value", s.min, s.max, (v) => String(v));
      case "SelectionSliderModel":
        return this.slider(id, model, "index", 0, s._options_labels.length - 1, (v) => s._options_labels[v]);
      case "DropdownModel":
        return this.list(id, model);
    }
    return make("pre", {}, "this page cannot draw a " + s._model_name);
  }

  slider(id, model, key, min, max, text) {
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

  list(id, model) {
    const box = make("select", {}, ...model.state._options_labels.map((o) => make("option", {}, o)));
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
  async send(id, model, key, from) {
    if (model.busy) {
      model.again = true;
      return;
    }
    model.busy = true;
    do {
      model.again = false;
      await this.tell(id, { method: "update", state: { [key]: model.state[key] }, buffer_paths: [] }, from);
    } while (model.again);
    model.busy = false;
  }
}
