// What a person is asked before a notebook that came from elsewhere runs.

import { html, nothing, render } from "lit-html";
import { make } from "./dom";

export interface Asks {
  sum: string; // of the code
  cells: number;
  lines: number;
  reach: string[];
  kept: string; // the file that remembers trust
}

// byTrust shows what would run and resolves to what the person says; "" is no.
export function byTrust(name: string, asks: Asks, sources: string[]) {
  const box = make("dialog", { class: "trust", "aria-labelledby": "trust-title" });
  const count = (n: number, what: string) => n + " " + what + (n === 1 ? "" : "s");
  const end = (how: string) => () => box.close(how);
  render(html`<h2 id="trust-title">Run the code of ${name}?</h2>
<p>It was not written on this explorer, or has changed since. Its ${count(asks.cells, "cell")} with ${count(asks.lines, "line")} run with all your rights: your files, programs and network.</p>
${asks.reach.length ? html`<p>It says that it uses</p><ul>${asks.reach.map((r) => html`<li><code>${r}</code></li>`)}</ul>` : nothing}
<div class="would" tabindex="0" role="group" aria-label="What would run">${sources.map((s) => html`<pre>${s}</pre>`)}</div>
<p class="give"><button type="button" class="act" autofocus @click=${end("")}>Do not run</button><button type="button" class="quiet" @click=${end("once")}>Trust once</button><button type="button" class="quiet" @click=${end("always")}>Trust always</button></p>
<p class="note">Once holds until the explorer ends. Always is of this code alone, by its hash, kept in ${asks.kept} beside the explorer's data and not in the notebook.</p>`, box);
  document.body.append(box);
  box.showModal();
  return new Promise<string>((done) => box.addEventListener("close", () => {
    box.remove();
    done(box.returnValue);
  }));
}
