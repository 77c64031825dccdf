// The editor of texts with several lines: CodeMirror. It is a bundle of its own that a
// page loads when it shows such a text.

import { autocompletion, closeCompletion, completionKeymap, completionStatus, startCompletion } from "@codemirror/autocomplete";
import type { CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { bracketMatching, indentUnit, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { lintKeymap, setDiagnostics } from "@codemirror/lint";
import { EditorState, Prec, StateEffect, StateField } from "@codemirror/state";
import type { Extension } from "@codemirror/state";
import { Decoration, drawSelection, EditorView, hoverTooltip, keymap, lineNumbers, placeholder } from "@codemirror/view";
import type { DecorationSet } from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";
import { announce, make } from "./dom";
import { range, type TextOptions } from "./textbox";
import type { Problem } from "./wire";

export interface Editor {
  readonly dom: HTMLElement;
  readonly value: string;
  readonly focused: boolean;
  set(text: string): void;
  focus(): void;
  invalid(on: boolean): void;
  mark(problems: Problem[]): void;
  light(line: number): void;
  destroy(): void;
}

// Words of a language, and what begins a comment.
const words: Record<string, RegExp> = {
  tile: /^(program|for|while|if|else|in|break|continue|return|assume|static_assert|group|register|shared|global|min|max|select|warps|grid)$/,
  go: /^(break|case|chan|const|continue|default|defer|else|fallthrough|for|func|go|goto|if|import|interface|map|package|range|return|select|struct|switch|type|var|nil|true|false)$/,
};
const types = /^([uif]\d+(e\d+m\d+)?|bf16|tf32|bool|string|int|byte|error|float64)$/;

// tokens is enough of a grammar for colours; what a text means only the server knows.
function tokens(language: string) {
  return StreamLanguage.define<{ quote: string }>({
    startState: () => ({ quote: "" }),
    token(s, state) {
      if (state.quote) {
        while (!s.eol()) if (s.next() === state.quote) { state.quote = ""; break; }
        return "string";
      }
      if (s.eatSpace()) return null;
      if (s.match("//")) { s.skipToEnd(); return "comment"; }
      const c = s.peek()!;
      if (c === '"' || c === "`" || c === "'") {
        s.next();
        for (let escaped = false, d: string | void; (d = s.next()); escaped = !escaped && d === "\\" && c !== "`") if (d === c && !escaped) return "string";
        if (c === "`") state.quote = c;
        return "string";
      }
      if (s.match(/^\d[\w.]*/)) return "number";
      if (s.match(/^[A-Za-z_]\w*/)) {
        const word = s.current();
        if (words[language]?.test(word)) return "keyword";
        if (types.test(word)) return "typeName";
        return s.peek() === "(" ? "propertyName" : "variableName";
      }
      s.next();
      return "operator";
    },
  });
}

const lightLine = StateEffect.define<number>();
const litLine = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(old, tr) {
    for (const e of tr.effects) {
      if (!e.is(lightLine)) continue;
      return e.value > 0 && e.value <= tr.state.doc.lines ? Decoration.set([Decoration.line({ class: "cm-lit" }).range(tr.state.doc.line(e.value).from)]) : Decoration.none;
    }
    return old.map(tr.changes);
  },
  provide: (f) => EditorView.decorations.from(f),
});

const look = EditorView.theme({
  "&": { backgroundColor: "var(--field)", color: "var(--ink)", border: "1px solid var(--line)", borderRadius: "9px", fontSize: "16px" },
  "&.cm-focused": { outline: "3px solid var(--accent)", outlineOffset: "2px" },
  "&.cm-invalid": { borderColor: "var(--mark)" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.45", borderRadius: "9px" },
  ".cm-content": { padding: "9px 0", caretColor: "var(--ink)", minHeight: "44px" },
  ".cm-line": { padding: "0 12px 0 6px" },
  ".cm-gutters": { backgroundColor: "var(--field)", color: "var(--soft)", border: "0" },
  ".cm-cursor": { borderLeftColor: "var(--ink)", borderLeftWidth: "2px" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "color-mix(in srgb, var(--accent) 30%, transparent)" },
  ".cm-placeholder": { color: "var(--soft)" },
  ".cm-lit": { backgroundColor: "color-mix(in srgb, var(--accent) 6%, transparent)", boxShadow: "inset 3px 0 0 var(--accent), inset 0 1px 0 var(--accent), inset 0 -1px 0 var(--accent)" },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": { backgroundColor: "color-mix(in srgb, var(--accent) 25%, transparent)" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--mark) 2px", textUnderlineOffset: "4px", backgroundColor: "color-mix(in srgb, var(--mark) 16%, transparent)" },
  ".cm-tooltip": { backgroundColor: "var(--card)", color: "var(--ink)", border: "1px solid var(--line)", borderRadius: "9px", maxWidth: "min(560px, 90vw)" },
  ".cm-diagnostic": { fontFamily: "inherit", padding: "6px 12px", borderLeft: "4px solid var(--mark)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "15em" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "4px 12px", minHeight: "24px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--accent-ink)" },
  ".cm-completionDetail": { fontStyle: "normal", color: "inherit" },
  ".cm-panels": { backgroundColor: "var(--card)", color: "var(--ink)" },
});

// kinds of offers as the editor's icons know them.
const kinds: Record<string, string> = { function: "function", field: "property", variable: "variable", keyword: "keyword", type: "type", constant: "constant" };

// edit makes an editor. explain shows a page of the manual below it.
export function edit(o: TextOptions & { select: [number, number]; explain(html: string): void }): Editor {
  const a = o.assist;
  const around = (state: EditorState, at: number) => [state.sliceDoc(0, at), state.sliceDoc(at)] as const;
  const offers = async (c: CompletionContext): Promise<CompletionResult | null> => {
    if (!c.explicit && !c.matchBefore(/[A-Za-z_][\w.]+$/)) return null;
    const r = await a!.complete(...around(c.state, c.pos));
    if (!r?.items.length || c.aborted) return null;
    return {
      from: c.pos - r.word.length,
      options: r.items.map((x, i) => ({ label: x.text, type: kinds[x.kind], detail: x.doc && x.doc.length < 60 ? x.doc : undefined, info: x.doc && x.doc.length >= 60 ? x.doc : undefined, boost: -Math.min(99, i / 10) })),
      validFor: /^[\w.]*$/,
    };
  };
  const manual = hoverTooltip(async (view, pos) => {
    const at = view.state.wordAt(pos);
    if (!at) return null;
    const html = await a!.describe(...around(view.state, at.to));
    if (!html) return null;
    return {
      pos: at.from, end: at.to, above: true,
      create() {
        const dom = make("div", { class: "prose manual" });
        dom.innerHTML = html; // made by goldmark without raw HTML
        return { dom };
      },
    };
  }, { hoverTime: 350 });

  let explained = false;
  const own = Prec.highest(keymap.of([
    { any: (_, e) => o.key?.(e) ?? false },
    {
      key: "F1", run: (view) => {
        if (!a) return false;
        a.describe(...around(view.state, view.state.selection.main.head)).then((html) => {
          explained = !!html;
          o.explain(html);
          if (!html) announce("nothing is known of this word");
        });
        return true;
      },
    },
    {
      key: "Escape", run: (view) => {
        if (completionStatus(view.state)) return closeCompletion(view);
        if (explained) o.explain("");
        explained = false;
        return false; // after Escape, Tab leaves
      },
    },
  ]));

  let typed = false; // since the editor got the focus
  let quiet = false; // the change is not a person's
  let at = 0; // line of the caret
  const listener = EditorView.updateListener.of((u) => {
    if (u.docChanged && !quiet) {
      typed = true;
      o.changed(false);
    }
    if (u.focusChanged && !u.view.hasFocus) {
      if (typed) o.changed(true);
      typed = false;
    }
    const line = u.view.hasFocus ? u.state.doc.lineAt(u.state.selection.main.head).number : 0;
    if (line !== at) o.line?.(at = line);
  });

  // Left to itself the browser keeps the looks of a replaced selection in style
  // attributes, about which the page's policy complains.
  const replace = EditorView.domEventHandlers({
    beforeinput(e, view) {
      const text = e.data ?? e.dataTransfer?.getData("text/plain") ?? null;
      // The document's selection may be newer than the editor's.
      const sel = document.getSelection();
      if (e.inputType !== "insertText" || text === null || e.isComposing || !sel || sel.isCollapsed || !view.contentDOM.contains(sel.anchorNode) || !view.contentDOM.contains(sel.focusNode)) return false;
      const known = view.state.selection.main;
      const ends = known.empty ? [view.posAtDOM(sel.anchorNode!, sel.anchorOffset), view.posAtDOM(sel.focusNode!, sel.focusOffset)] : [known.from, known.to];
      const from = Math.min(...ends), to = Math.max(...ends);
      e.preventDefault();
      view.dispatch({ changes: { from, to, insert: text }, selection: { anchor: from + text.length }, userEvent: "input.type", scrollIntoView: true });
      return true;
    },
  });

  const attributes: Record<string, string> = { spellcheck: "false", autocapitalize: "off", tabindex: "0" };
  if (o.label) attributes["aria-labelledby"] = o.label;
  if (o.name) attributes["aria-label"] = o.name;
  if (o.doc) attributes["aria-description"] = o.doc;
  const extensions: Extension[] = [
    own, replace, listener, litLine, look, history(), drawSelection(), bracketMatching(), EditorState.tabSize.of(4), indentUnit.of("\t"),
    syntaxHighlighting(classHighlighter), EditorView.contentAttributes.of(attributes),
    keymap.of([...completionKeymap, ...lintKeymap, ...historyKeymap, ...(o.tab ? [indentWithTab] : []), ...defaultKeymap]),
  ];
  if (o.language in words) extensions.push(tokens(o.language));
  if (o.language === "tile") extensions.push(lineNumbers());
  if (o.language === "markdown") extensions.push(EditorView.lineWrapping);
  if (o.hint) extensions.push(placeholder(o.hint));
  if (a) extensions.push(autocompletion({ override: [offers], icons: false, activateOnTypingDelay: 150 }), manual, keymap.of([{ key: "Ctrl-Space", run: startCompletion }]));

  const view = new EditorView({ state: EditorState.create({ doc: o.value, extensions, selection: { anchor: Math.min(o.select[0], o.value.length), head: Math.min(o.select[1], o.value.length) } }) });
  return {
    dom: view.dom,
    get value() { return view.state.doc.toString(); },
    get focused() { return view.hasFocus; },
    set(text) {
      quiet = true;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
      quiet = false;
    },
    focus: () => view.focus(),
    invalid(on) {
      view.dom.classList.toggle("cm-invalid", on);
      if (on) view.contentDOM.setAttribute("aria-invalid", "true");
      else view.contentDOM.removeAttribute("aria-invalid");
    },
    mark(problems) {
      const text = view.state.doc.toString();
      view.dispatch(setDiagnostics(view.state, problems.map((p) => {
        const [from, to] = range(text, p);
        return { from: Math.min(from, text.length), to: Math.min(to, text.length), severity: "error" as const, message: p.msg + (p.help ? "\n" + p.help : ""), source: p.code };
      })));
    },
    light: (line) => view.dispatch({ effects: lightLine.of(line) }),
    destroy: () => view.destroy(),
  };
}
