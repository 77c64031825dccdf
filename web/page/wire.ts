// What the server says, as JSON; see web/ws.go and web/pane.

export type Values = Record<string, string>;

export interface Param {
  name: string;
  title: string;
  kind: "text" | "layout" | "program" | "slider" | "choice" | "sheet";
  default: string;
  hint?: string;
  doc: string;
  min?: number;
  max?: number;
  choices?: string[];
  also?: Values; // other names of choices
  fills?: string; // of a choice that names texts: the parameter whose field shows the chosen one
  texts?: Values;
  beside?: Record<string, string[]>; // what else is to be chosen for it to play a part
  later?: boolean; // shown when asked
  soon?: boolean; // small screens show it at first, too
  play?: boolean;
  story?: Values; // shows all moments at once
}

export interface Row {
  name: string;
  title: string;
  doc: string;
  params: Param[];
  lesson?: string; // what the name of the lesson about it begins with
}

export interface Variable {
  name: string;
  form?: string;
  text?: string;
}

export interface Session {
  session: string;
  title?: string;
  vars: Variable[];
}

export interface Sample {
  program: string;
  args?: string[];
}

export interface Hello {
  panes: Row[];
  forms: string[];
  vars: Session[];
  notebooks: string[];
  sample?: Sample;
  role?: string; // "view" may look, "run" may do all
  share?: { local: boolean; static: string }; // whether the address works here only, and where a static copy stands
  offline?: boolean; // there is no server
}

export interface Device {
  name: string;
  detail: string;
}

// Lines and columns count from 1, columns in bytes.
export interface Problem {
  param?: string;
  line?: number;
  col?: number;
  endLine?: number;
  endCol?: number;
  code?: string;
  msg: string;
  help?: string;
}

// An element of a picture: id, x, y, w, h, keys, label, thread, slot, place in the tensor.
export type Item = [string, number, number, number, number, number[], string, number, number?, number[]?];

// Texts of one line: y, size, colour, anchor, bold, [x, word, x, word, …].
export type Texts = [number, number, string, "start" | "middle" | "end", boolean, (number | string)[]];

export interface PictureJSON {
  name: string;
  title: string;
  desc: string;
  width: number;
  height: number;
  svg: string;
  texts: Texts[];
  ids: Item[];
  go?: Record<string, Values>;
}

export interface Result {
  sentence: string;
  text: string;
  pictures: PictureJSON[];
}

// What "copy" answers: a way of writing what a pane shows, or why there is none.
export interface Copy {
  name: string;
  title: string;
  text?: string;
  error?: string;
}

// A factor of a layout: characters of its text, and an element's index within it.
export interface Term {
  from: number;
  to: number;
  text: string;
  moves: boolean;
}

// An entry of the palette.
export interface Entry {
  title: string;
  kind: string;
  pane?: string;
  values?: Values;
  example?: string;
  book?: string;
  act?: () => void;
}
