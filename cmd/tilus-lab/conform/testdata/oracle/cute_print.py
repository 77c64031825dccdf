"""Documents that CuTe's C++ headers print: LaTeX of layouts, of products and of copies, SVG of products, tables.

    pip download --no-deps nvidia-cutlass==4.2.0.0 nvidia-cuda-cccl-cu12 nvidia-cuda-runtime-cu12 nvidia-cuda-nvcc-cu12, unzip each
    python3 cute_print.py cutlass_library/source/include nvidia/*/include > cute_print.json

No GPU is wanted: the headers compile with g++ alone. Of a document stand its digest and the first cells.
"""
import hashlib, json, os, re, subprocess, sys, tempfile

static = lambda s: re.sub(r"\d+", lambda n: f"Int<{n[0]}>", s.replace("(", "tuple<").replace(")", ">"))
layout = lambda s: "Layout<" + static(s.replace(":", ",")) + ">"
asks = []
for l in ["5:1", "8:3", "(1,1):(0,0)", "(7,3):(1,7)", "(2,9):(9,1)", "((2,3),(2,2)):((1,4),(2,12))", "(4,(2,2)):(0,(1,16))", "(16,4):(4,1)", "(3,4):(100,1)", "((2,(2,2)),4):((1,(4,2)),8)"]:
    asks.append(("print_latex", l, f"print_latex({layout(l)}{{}});"))
    if l[0] == "(":
        asks.append(("print_layout", l, f"print_layout({layout(l)}{{}});"))
for b, m, s, l in [(1, 0, 3, "(8,8):(8,1)"), (3, 0, 3, "(8,8):(8,1)"), (2, 1, -3, "(8,16):(16,1)"), (0, 4, 3, "(4,4):(4,1)")]:
    asks.append(("print_latex", f"Sw<{b},{m},{s}> o {l}", f"print_latex(composition(Swizzle<{b},{m},{s}>{{}},{layout(l)}{{}}));"))
    asks.append(("print_layout", f"Sw<{b},{m},{s}> o {l}", f"print_layout(composition(Swizzle<{b},{m},{s}>{{}},{layout(l)}{{}}));"))
for t, c in (("u8", "uint8_t"), ("f32", "float"), ("f64", "double")):
    asks.append(("print_latex", f"GMMA::Layout_MN_SW32_Atom<{t}>", f"print_latex(as_position_independent_swizzle_layout(GMMA::Layout_MN_SW32_Atom<{c}>{{}}));"))
atoms = ["SM70_8x8x4_F16F16F16F16_TN", "SM70_8x8x4_F32F16F16F32_NT", "SM75_16x8x8_F32F16F16F32_TN", "SM80_16x8x16_F32BF16BF16F32_TN", "SM80_16x8x4_F32TF32TF32F32_TN", "SM80_16x8x32_S32S8S8S32_TN", "SM80_8x8x4_F64F64F64F64_TN", "SM90_16x8x4_F64F64F64F64_TN", "SM80_8x8x32_S32S4S4S32_TN"]
for a in atoms:
    asks.append(("print_svg", a, f"print_svg(MMA_Atom<{a}>{{}});"))
    asks.append(("print_latex_mma", a, f"print_latex(MMA_Atom<{a}>{{}});"))
for a, atoms_, tile in [("SM80_16x8x16_F32F16F16F32_TN", "(2,2,1):(1,2,4)", ""), ("SM80_16x8x8_F32TF32TF32F32_TN", "(2,1,1):(1,2,2)", "32,16,8"), ("SM70_8x8x4_F32F16F16F32_NT", "(2,2,1):(2,1,4)", "")]:
    words = f"tiled_mma {a} {atoms_}" + (f" Tile<{tile}>" if tile else "")
    product = f"TiledMMA<MMA_Atom<{a}>,{layout(atoms_)}" + (f",Tile<{static(tile)}>" if tile else "") + ">{}"
    asks.append(("print_svg", words, f"print_svg({product});"))
    asks.append(("print_latex_mma", words, f"print_latex({product});"))
for word, inst, t, c, th, va in [("u128", "UniversalCopy<uint128_t>", "f32", "float", "(4,8):(8,1)", "(1,4):(0,1)"), ("u32", "UniversalCopy<uint32_t>", "f16", "half_t", "(8,4):(4,1)", "(1,2):(0,1)"), ("u64", "UniversalCopy<uint64_t>", "f64", "double", "(2,3):(3,1)", "(2,2):(2,1)"),
                                 ("u128", "UniversalCopy<uint128_t>", "u8", "uint8_t", "(1,4):(0,1)", "(4,4):(4,1)")]:
    asks.append(("print_latex_copy", f"{word} {t} thr{th} val{va}", f"print_latex(make_tiled_copy(Copy_Atom<{inst},{c}>{{}},{layout(th)}{{}},{layout(va)}{{}}));"))

with tempfile.TemporaryDirectory() as d:
    with open(d + "/a.cpp", "w") as f:
        f.write("#include <cute/tensor.hpp>\n#include <cute/util/print_latex.hpp>\n#include <cute/util/print_svg.hpp>\n#include <cute/atom/mma_atom.hpp>\n#include <cute/atom/copy_atom.hpp>\nusing namespace cute;\nint main() {\n"
                + "".join(f'  printf("\\f"); {statement}\n' for _, _, statement in asks) + "}\n")
    subprocess.run(["g++", "-std=c++17", "-w", *(x for i in sys.argv[1:] for x in ("-isystem", os.path.abspath(i))), "a.cpp", "-o", "a"], cwd=d, check=True)
    texts = subprocess.run([d + "/a"], capture_output=True, text=True, check=True).stdout.split("\f")[1:]
cases = []
for (op, expr, _), text in zip(asks, texts):
    if op == "print_layout":
        expect = {"text": text}
    elif op == "print_svg":
        text = re.sub(r"(?m)^<!--.*-->\n", "", text)
        cells = re.findall(r'<rect x="(\d+)" y="(\d+)"[^>]*fill="rgb\(([^)]*)\)"[^>]*/>\n<text[^>]*>T(\d+)</text>\n<text[^>]*>V(\d+)</text>', text)
        expect = {"sha256_without_comments": hashlib.sha256(text.encode()).hexdigest(), "n_cells": len(cells), "cells_xyfillTV": [[int(x), int(y), c, int(t), int(v)] for x, y, c, t, v in cells[:64]]}
    else:
        cells = [[c, int(x), int(y), re.sub(r"\\shortstack\{(\S+) \\\\ (\S+)\}", r"\1 \2", s)] for c, x, y, s in re.findall(r"(?m)^\\node\[fill=(.*)\] at \((-?\d+),(-?\d+)\) \{(.*)\};$", text)]
        expect = {"sha256": hashlib.sha256(text.encode()).hexdigest(), "first_line": text.split("\n")[0], "n_cells": len(cells), "cells": cells[:64]}
    cases.append(json.dumps({"input": {"op": op, "expr": expr}, "expect": expect}))
print("[" + ",\n".join(cases) + "]")
