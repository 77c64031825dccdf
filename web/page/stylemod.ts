// Stands in for the package style-mod in the bundle: the same class, whose rules go
// into a style sheet that is made and adopted by script. The package makes a style
// element, which the page's policy forbids.

// @ts-ignore: the package has no types for its source
import { StyleModule as Base } from "../../tests/.env/node/node_modules/style-mod/src/style-mod.js";

interface Module {
  getRules(): string;
}

interface Mounted {
  sheet: CSSStyleSheet;
  modules: Module[];
}

const mounted = new WeakMap<Document | ShadowRoot, Mounted>();

export class StyleModule extends (Base as new (spec: unknown, options?: unknown) => Module) {
  static newName: () => string = Base.newName;

  // mount makes the rules of modules hold in a root, later ones over earlier ones.
  static mount(root: Document | ShadowRoot, modules: Module | Module[]) {
    let m = mounted.get(root);
    if (!m) {
      m = { sheet: new CSSStyleSheet(), modules: [] };
      mounted.set(root, m);
      root.adoptedStyleSheets = [m.sheet, ...root.adoptedStyleSheets];
    }
    const list = Array.isArray(modules) ? modules : [modules];
    if (list.every((x) => m.modules.includes(x))) return;
    m.modules = [...m.modules.filter((x) => !list.includes(x)), ...list];
    m.sheet.replaceSync(m.modules.map((x) => x.getRules()).join("\n"));
  }
}
