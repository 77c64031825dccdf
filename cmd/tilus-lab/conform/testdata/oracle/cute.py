"""Answers of CuTe's C++ headers to random questions of its algebra, of swizzles, of tiled products and of tiled copies.

    pip download --no-deps nvidia-cutlass==4.2.0.0 nvidia-cuda-cccl-cu12 nvidia-cuda-runtime-cu12 nvidia-cuda-nvcc-cu12, unzip each
    python3 cute.py SEED cutlass_library/source/include nvidia/*/include > cute.json

No GPU is wanted: the headers compile with g++ alone. What they refuse to compile is left out.
"""
import json, math, os, random, re, subprocess, sys, tempfile

R = random.Random(int(sys.argv[1]))
cases = []  # (input, C++ statement, prints a list)


def ask(op, args, cpp, **more):
    cases.append(({"op": op, "args": args, **more}, f"print({cpp});"))


def say(op, expr, cpp, **more):
    cases.append(({"op": op, "expr": expr, "position_independent": False, **more}, cpp))


def flat(x):
    return [x] if isinstance(x, int) else [z for y in x for z in flat(y)]


def fill(shape, it):
    return next(it) if isinstance(shape, int) else tuple(fill(s, it) for s in shape)


def text(x):
    return str(x) if isinstance(x, int) else "(" + ",".join(map(text, x)) + ")"


def static(x):
    return f"Int<{x}>" if isinstance(x, int) else "tuple<" + ",".join(map(static, x)) + ">"


def name(l):
    return text(l[0]) + ":" + text(l[1])


def cpp(l):
    return f"Layout<{static(l[0])},{static(l[1])}>{{}}"


def shape(depth=0):
    if depth < 3 and R.random() < (.8 if depth == 0 else .25):
        return tuple(shape(depth + 1) for _ in range(R.randint(1, 5 if depth == 0 else 3)))
    return R.choice([1, 1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 16])


def compact(sh, gaps=False):
    sizes = flat(sh)
    order = list(range(len(sizes)))
    R.shuffle(order)
    strides, n = [0] * len(sizes), 1
    for i in order:
        strides[i] = n
        n *= sizes[i] * (R.choice([1, 1, 2, 3]) if gaps else 1)
    if gaps and R.random() < .3:
        strides[R.randrange(len(sizes))] = 0
    return sh, fill(sh, iter(strides))


def layout(most=2048):
    while True:
        sh = shape()
        if math.prod(flat(sh)) <= most:
            if R.random() < .2:
                return sh, fill(sh, iter([R.choice([0, 1, 1, 2, 3, 4, 6, 8, 12, 16, 24]) for _ in flat(sh)]))
            return compact(sh, R.random() < .5)


def divisor(n):
    return R.choice([x for x in range(1, n + 1) if n % x == 0])


for op in ["coalesce", "filter", "filter_zeros", "right_inverse", "left_inverse", "nullspace", "make_layout_like", "make_fragment_like", "flatten", "size", "cosize", "max_alignment"]:
    for _ in range(6):
        l = compact(layout()[0]) if "inverse" in op else layout()
        ask(op, [name(l)], f"{op}({cpp(l)})")
for _ in range(6):
    l = layout()
    ask("rank", [text(l[0])], f"rank({static(l[0])}{{}})")
    ask("depth", [text(l[0])], f"depth({static(l[0])}{{}})")
    if not isinstance(l[0], int):
        ask("coalesce_by_mode", [name(l), "S(" + ",".join("1" for _ in l[0]) + ")"], f"coalesce({cpp(l)},{static(tuple(1 for _ in l[0]))}{{}})")
        i = R.randrange(math.prod(flat(l[0])))
        ask("idx2crd", [f"I{i}", "S" + text(l[0])], f"idx2crd(Int<{i}>{{}},{static(l[0])}{{}})")
        pick = lambda s: R.randrange(math.prod(flat(s))) if isinstance(s, int) or R.random() < .3 else tuple(map(pick, s))
        c = tuple(map(pick, l[0]))
        ask("crd2idx", ["S" + text(c), name(l)], f"crd2idx({static(c)}{{}},{static(l[0])}{{}},{static(l[1])}{{}})")
    k = R.randint(1, 5)
    s, o = tuple(R.choice([1, 2, 3, 4, 8]) for _ in range(k)), list(range(k))
    R.shuffle(o)
    ask("make_ordered_layout", ["S" + text(s), "S" + text(tuple(o))], f"make_ordered_layout({static(s)}{{}},{static(tuple(o))}{{}})")
    n = R.choice([1, 2, 4, 8, 16])
    ask("upcast", [name(l)], f"upcast<{n}>({cpp(l)})", N=n)
    ask("downcast", [name(l)], f"downcast<{n}>({cpp(l)})", N=n)
    n, l = R.choice([1, 8, 12, 24, 100, 1024]), compact(l[0], True)
    ask("complement", [name(l), f"I{n}"], f"complement({cpp(l)},Int<{n}>{{}})")
    a, b = compact(l[0]), compact(l[0]) if R.random() < .5 else layout()
    ask("max_common_layout", [name(a), name(b)], f"max_common_layout({cpp(a)},{cpp(b)})")
    ask("max_common_vector", [name(a), name(b)], f"max_common_vector({cpp(a)},{cpp(b)})")
for op in ["composition", "logical_divide", "zipped_divide", "tiled_divide", "flat_divide"]:
    for k in range(12):
        l = layout()
        if k % 3 == 0 and not isinstance(l[0], int):
            tiles = [(divisor(math.prod(flat(m))), 1) for m in l[0][:R.randint(1, len(l[0]))]]
            ask(op, [name(l), "<" + ",".join(map(name, tiles)) + ">"], f"{op}({cpp(l)},make_tile({','.join(map(cpp, tiles))}))")
            continue
        n = math.prod(flat(l[0]))
        a = divisor(n)
        b = divisor(n // a)
        c = divisor(a)
        r = (a, b) if k % 3 == 1 else ((c, a // c), (b, b * c))
        ask(op, [name(l), name(r)], f"{op}({cpp(l)},{cpp(r)})")
for op in ["logical_product", "zipped_product", "tiled_product", "flat_product", "blocked_product", "raked_product"]:
    for _ in range(8):
        l, r = compact(layout(64)[0]), compact(layout(64)[0])
        if op[0] in "br":
            k = R.randint(1, 4)
            l, r = (compact(tuple(R.choice([1, 2, 3, 4, (2, 2), (1, 3)]) for _ in range(k))) for _ in range(2))
        ask(op, [name(l), name(r)], f"{op}({cpp(l)},{cpp(r)})")
for _ in range(10):
    k = R.randint(1, 3)
    l = compact(tuple(R.choice([1, 2, 4, 8]) for _ in range(k)))
    t = tuple(x * R.choice([1, 2, 3]) for x in l[0])
    ask("tile_to_shape", [name(l), "S" + text(t)], f"tile_to_shape({cpp(l)},{static(t)}{{}})")

# Swizzles.
for b, m, s in [(b, m, s) for b in range(4) for m in range(5) for s in (-4, -3, 3, 4) if abs(s) >= b and R.random() < .3]:
    sw, l = f"Sw<{b},{m},{s}>", R.choice([((8, 8), (8, 1)), ((8, 16), (16, 1)), ((4, (2, 16)), (32, (16, 1)))])
    ask("composed_print", [sw, name(l)], f"composition(Swizzle<{b},{m},{s}>{{}},{cpp(l)})")
    cases.append(({"op": "swizzle_values", "args": [sw, name(l)]}, f'auto x = composition(Swizzle<{b},{m},{s}>{{}},{cpp(l)}); printf("["); for (int i = 0; i < size(x); ++i) printf(i ? ",%d" : "%d", int(x(i))); printf("]");'))
    n = R.choice([1, 2, 4, 8, 16])
    ask("swizzle_upcast", [sw], f"upcast<{n}>(Swizzle<{b},{m},{s}>{{}})", N=n)
    ask("swizzle_downcast", [sw], f"downcast<{n}>(Swizzle<{b},{m},{s}>{{}})", N=n)
types = {"u8": "uint8_t", "f16": "half_t", "f32": "float", "f64": "double"}
for t, c in types.items():
    for major in ("K", "MN"):
        for w in ("INTER", "SW32", "SW64", "SW128"):
            sh = R.choice([(128, 64), (64, 128), (256, 128)])
            atom, block = f"GMMA::Layout_{major}_{w}_Atom<{t}>", f"GMMA::Layout_{major}_{w}_Atom<{c}>{{}}"
            if R.random() < .5:
                say("tile_to_shape", f"tile_to_shape {atom} {text(sh)}", f"print(tile_to_shape({block},{static(sh)}{{}}));")
            else:
                k, step = R.choice([2, 3, 4]), R.choice([(2, 1, 3), (1, 2, 3), (3, 1, 2)])
                say("tile_to_shape", f"tile_to_shape {atom} {text(sh + (k,))} Step<{','.join(map(str, step))}>", f"print(tile_to_shape({block},{static(sh + (k,))}{{}},{static(step)}{{}}));")

# Tiled products and copies.
atoms = {"SM70_8x8x4_F32F16F16F32_NT": (8, 8, 4), "SM70_8x8x4_F16F16F16F16_TN": (8, 8, 4), "SM75_16x8x8_F32F16F16F32_TN": (16, 8, 8), "SM80_16x8x16_F32F16F16F32_TN": (16, 8, 16), "SM80_16x8x32_S32S8S8S32_TN": (16, 8, 32),
         "SM80_8x8x4_F64F64F64F64_TN": (8, 8, 4), "SM80_16x8x8_F32TF32TF32F32_TN": (16, 8, 8), "SM90_16x8x16_F64F64F64F64_TN": (16, 8, 16), "SM80_16x8x64_S32S4S4S32_TN": (16, 8, 64), "UniversalFMA<f32>": (1, 1, 1),
         "SM90_64x64x16_F16F16F16_SS<K,K>": (64, 64, 16), "SM90_64x128x16_F32F16F16_RS<K,K>": (64, 128, 16)}
spread = [((2, 2, 1), (1, 2, 4)), ((2, 2), (2, 1)), ((2, 1, 1), (1, 2, 2)), ((1, 4, 1), (1, 1, 4)), ((4, 1, 1), (1, 4, 4)), ((2, 4, 1), (1, 2, 8)), ((2, 2, 1), (2, 1, 4)), ((1, 1, 2), (1, 1, 1))]
queries = {"tile_mnk": "tile_shape(t)", "A_TV": "t.get_layoutA_TV()", "B_TV": "t.get_layoutB_TV()", "C_TV": "t.get_layoutC_TV()", "thr_vmnk": "t.get_thr_layout_vmnk()"}
for atom, (m, n, k) in atoms.items():
    c = atom.replace("UniversalFMA<f32>", "UniversalFMA<float,float,float>").replace("<K,K>", "<GMMA::Major::K,GMMA::Major::K>")
    for l in [None] + R.sample(spread, 3):
        words, args = atom, f"MMA_Atom<{c}>"
        if l:
            words, args = words + " " + name(l), args + "," + cpp(l)[:-2]
            if R.random() < .6 and not atom.startswith("SM90_64"):
                x = (m * l[0][0] * R.choice([1, 2]), n * l[0][1] * 2, k * (l[0] + (1,))[2])
                words, args = words + f" Tile<{x[0]},{x[1]},{x[2]}>", args + f",Tile<Int<{x[0]}>,Int<{x[1]}>,Int<{x[2]}>>"
        for q in R.sample(list(queries), 2):
            say("tiled_mma", f"tiled_mma {words} {q}", f"TiledMMA<{args}> t; print({queries[q]});")
threads = [((32, 8), (1, 32)), ((16, 8), (8, 1)), ((8, 16), (16, 1)), ((4, 8), (8, 1)), ((2, 3), (3, 1)), ((1, 32), (0, 1)), ((8, 4), (1, 8))]
values = [((4, 1), (1, 0)), ((1, 8), (0, 1)), ((2, 2), (2, 1)), ((1, 1), (0, 0)), ((8, 1), (1, 0)), ((2, 4), (4, 1))]
for th in threads:
    for va in R.sample(values, 4):
        tv = f"thr{name(th)} val{name(va)}"
        q = R.choice(["layout_tv", "tiler_mn", "layout_mn"])
        say("make_layout_tv", f"make_layout_tv {tv} {q}", f"print(raked_product({cpp(th)},{cpp(va)}));" if q == "layout_mn" else f"auto r = make_layout_tv({cpp(th)},{cpp(va)}); print(get<{int(q == 'layout_tv')}>(r));")
        word, inst, t, ct, per = R.choice([("u128", "UniversalCopy<uint128_t>", "f32", "float", 4), ("cp.async16", "SM80_CP_ASYNC_CACHEALWAYS<uint128_t>", "f16", "half_t", 8), ("u32", "UniversalCopy<uint32_t>", "f16", "half_t", 2), ("u64", "UniversalCopy<uint64_t>", "f64", "double", 1)])
        if math.prod(va[0]) % per == 0:
            copy = f"auto t = make_tiled_copy(Copy_Atom<{inst},{ct}>{{}},{cpp(th)},{cpp(va)});"
            for q, e in (("TV", "TiledLayout_TV"), ("Tiler", "Tiler_MN")):
                say("tiled_copy", f"tiled_copy {word} {t} {tv} {q}", f"{copy} print(typename decltype(t)::{e}{{}});")
for operand in "ABC":
    for word, inst in (("ldsm.x4", "SM75_U32x4_LDSM_N"), ("ldsm.x2", "SM75_U32x2_LDSM_N"), ("ldsm.x4.trans", "SM75_U16x8_LDSM_T"), ("u32", "UniversalCopy<uint32_t>")):
        for l, x in (((2, 2, 1), (32, 32, 16)), ((2, 1, 1), (32, 16, 16)), ((1, 2, 1), (16, 32, 16)), ((4, 1, 1), (64, 16, 32))):
            product = f"TiledMMA<MMA_Atom<SM80_16x8x16_F32F16F16F32_TN>,Layout<{static(l)}>,Tile<Int<{x[0]}>,Int<{x[1]}>,Int<{x[2]}>>> m; auto t = make_tiled_copy_{operand}(Copy_Atom<{inst},half_t>{{}}, m);"
            for q in R.sample(["TV", "Tiler", "tidfrg_S", "tidfrg_D"], 3):
                e = f"print(typename decltype(t)::{'TiledLayout_TV' if q == 'TV' else 'Tiler_MN'}{{}});"
                if q[0] == "t":
                    e = f'auto x = t.{q}(make_identity_tensor(shape(typename decltype(t)::Tiler_MN{{}}))).layout(); printf("ArithTuple(0,0) o "); print(make_layout(get<0>(x), get<1>(x)));'
                say("tiled_copy_" + operand, f"tiled_copy_{operand} {word} SM80_16x8x16 {text(l)} Tile<{','.join(map(str, x))}> {q}", f"{product} {e}")
                if word == "ldsm.x4" and l == (2, 2, 1) and q[0] == "t" and operand != "C":
                    say("ldsm.x4", f"ldsm.x4 {operand} {q}", f"{product} {e}")

lines = [f'{{ printf("{i}\\t"); {statement} printf("\\n"); }}' for i, (_, statement) in enumerate(cases)]
with tempfile.TemporaryDirectory() as d:
    while True:
        head = ["#include <cute/tensor.hpp>", "#include <cute/atom/mma_atom.hpp>", "#include <cute/atom/copy_atom.hpp>", "using namespace cute;", "int main() {"]
        with open(d + "/a.cpp", "w") as f:
            f.write("\n".join(head + lines + ["}"]))
        r = subprocess.run(["g++", "-std=c++17", "-w", "-fmax-errors=0", *(x for i in sys.argv[2:] for x in ("-isystem", os.path.abspath(i))), "a.cpp", "-o", "a"], cwd=d, capture_output=True, text=True)
        if r.returncode == 0:
            break
        bad = {int(n) - 1 - len(head) for n in re.findall(r"^a\.cpp:(\d+):\d+:\s+(?:required from here|error)", r.stderr, re.M)}
        if not any(lines[i] for i in bad):
            sys.exit(r.stderr[:4000])
        print(len(bad), "refused", file=sys.stderr)
        for i in bad:
            lines[i] = ""
    out = subprocess.run([d + "/a"], capture_output=True, text=True, check=True).stdout


def offsets(l):
    parts = [[int(x) for x in re.findall(r"\d+", p)] for p in l.split(":")]
    out = [0]
    for n, d in zip(*parts):
        out = [o + i * d for i in range(n) for o in out]
    return out


answers = []
for line in out.splitlines():
    i, v = line.split("\t")
    q, v = cases[int(i)][0], v.replace("_", "")
    # The headers also answer where B steps over the end of a mode of A, with other elements than A(B) has.
    if q["op"].endswith("_divide") and sorted(offsets(v)) != sorted(offsets(q["args"][0])):
        continue
    if q["op"] == "composition" and q["args"][1][0] != "<":
        a, b = offsets(q["args"][0]), offsets(q["args"][1])
        if max(b) < len(a) and offsets(v) != [a[x] for x in b]:
            continue
    answers.append(json.dumps({"input": q, "expect": {"print": v} if "expr" in q else {"cpp": json.loads(v) if q["op"] == "swizzle_values" else v}}))
print("[" + ",\n".join(answers) + "]")
