"""Cases about layouts, from the definitions of Tilus and the PTX manual, by enumerating every thread and slot:
a layout here is its shape, its numbers of threads and slots, and the function from both to an index.

    python3 layout.py SEED > layout.json
"""
import hashlib, itertools, json, math, random, sys

R = random.Random(int(sys.argv[1]))
out = []


def add(kind, input, expect):
    out.append({"input": {"kind": kind, **input}, "expect": expect})


sha = lambda x: hashlib.sha256(json.dumps(x, separators=(",", ":")).encode()).hexdigest()


class Layout:
    def __init__(self, shape, threads, slots, at):
        self.shape, self.threads, self.slots, self.at = list(shape), threads, slots, at

    def __mul__(f, g):
        n = max(len(f.shape), len(g.shape))
        pad = lambda l, x, one: [one] * (n - len(l.shape)) + list(x)
        inner = pad(g, g.shape, 1)
        return Layout([a * b for a, b in zip(pad(f, f.shape, 1), inner)], f.threads * g.threads, f.slots * g.slots,
                      lambda t, s: [a * m + b for a, m, b in zip(pad(f, f.at(t // g.threads, s // g.slots), 0), inner, pad(g, g.at(t % g.threads, s % g.slots), 0))])

    def map(self):
        return [[self.at(t, s) for s in range(self.slots)] for t in range(self.threads)]


def digits(n, sizes, order):
    """The index that number n has, where order lists the dimensions from the slowest to the fastest."""
    index = [0] * len(sizes)
    for d in reversed(order):
        index[d], n = n % sizes[d], n // sizes[d]
    return index


def atom(rank):
    """An atom with its text."""
    sizes = [R.choice([1, 1, 2, 2, 3, 4, 5, 7, 8]) for _ in range(rank)]
    kind, order, text = R.choice(["spatial", "local", "column_spatial", "column_local", "ranks", "replicated"]), list(range(rank)), ", ".join(map(str, sizes))
    if kind == "replicated":
        n = R.choice([1, 2, 3, 4])
        return Layout(sizes, n, math.prod(sizes), lambda t, s: digits(s, sizes, order)), f"replicated({text + ', ' if rank else ''}num_workers={n})", sizes
    if kind == "ranks":
        kind = R.choice(["spatial", "local"])
        ranks = list(range(rank))
        R.shuffle(ranks)
        order = sorted(range(rank), key=lambda d: ranks[d])
        name = f"{kind}({text + ', ' if rank else ''}ranks=[{', '.join(map(str, ranks))}])"
    else:
        name = f"{kind}({text})"
        if kind.startswith("column_"):
            order, kind = order[::-1], kind[7:]
    n = math.prod(sizes)
    if kind == "spatial":
        return Layout(sizes, n, 1, lambda t, s: digits(t, sizes, order)), name, sizes
    return Layout(sizes, 1, n, lambda t, s: digits(s, sizes, order)), name, sizes


def product(rank, most=3, cells=2000):
    while True:
        l, text, sizes = atom(rank)
        parts = [sizes]
        for _ in range(R.randint(0, most - 1)):
            g, name, sizes = atom(rank)
            l, text = l * g, R.choice([f"({text})*({name})", f"compose({text}, {name})"])
            parts.append(sizes)
        if l.threads * l.slots <= cells:
            return l, text, parts


def register(l, text):
    add("register", {"expr": text}, {"ok": True, "threads": l.threads, "locals": l.slots, "map_sha256": sha(l.map())})


for rank in [0, 1, 1, 2, 2, 2, 3, 3, 4, 5] * 4:
    register(*product(rank)[:2])
for _ in range(10):  # of different ranks
    (f, a, _), (g, b, _) = product(R.randint(0, 2), 1), product(R.randint(2, 4), 1)
    register(f * g, f"({a})*({b})")
for _ in range(60):
    rank = R.randint(1, 4)
    l, text, parts = product(rank, cells=600)
    n = len(l.shape)
    what = R.choice(["permute", "unsqueeze", "squeeze", "concat", "reduce", "join", "split", "divide", "left_divide"])
    if what == "permute":
        p = R.sample(range(n), n)
        register(Layout([l.shape[d] for d in p], l.threads, l.slots, lambda t, s: [l.at(t, s)[d] for d in p]), f"permute({text}, {p})")
    if what == "unsqueeze":
        d = R.randint(0, n)
        register(Layout(l.shape[:d] + [1] + l.shape[d:], l.threads, l.slots, lambda t, s: l.at(t, s)[:d] + [0] + l.at(t, s)[d:]), f"unsqueeze({text}, [{d}])")
    if what == "squeeze" and 1 in l.shape:
        d = l.shape.index(1)
        register(Layout(l.shape[:d] + l.shape[d + 1:], l.threads, l.slots, lambda t, s: l.at(t, s)[:d] + l.at(t, s)[d + 1:]), f"squeeze({text}, [{d}])")
    if what == "concat":
        g, name, _ = product(R.randint(1, 2), 2, 30)
        if l.threads * l.slots < 300:
            register(Layout(l.shape + g.shape, l.threads * g.threads, l.slots * g.slots, lambda t, s: l.at(t // g.threads, s // g.slots) + g.at(t % g.threads, s % g.slots)), f"concat({text}, {name})")
    if what == "reduce":
        dims, keep = sorted(R.sample(range(n), R.randint(1, n))), R.random() < .5
        slots = [s for s in range(l.slots) if not any(l.at(0, s)[d] for d in dims)]
        left = lambda x, one: [one if d in dims else v for d, v in enumerate(x) if keep or d not in dims]
        register(Layout(left(l.shape, 1), l.threads, len(slots), lambda t, s: left(l.at(t, slots[s]), 0)), f"reduce({text}, {dims}, keepdims={keep})")
    if what == "join" and n > 1:
        d = R.randrange(n - 1)
        shape = l.shape[:d] + [l.shape[d] * l.shape[d + 1]] + l.shape[d + 2:]
        register(Layout(shape, l.threads, l.slots, lambda t, s: (x := l.at(t, s))[:d] + [x[d] * l.shape[d + 1] + x[d + 1]] + x[d + 2:]), f"reshape({text}, {shape})")
    if what == "split":  # where the factors meet
        sizes = [[p[d] for p in parts] for d in range(n)]
        shape = [x for s in sizes for x in s]
        register(Layout(shape, l.threads, l.slots, lambda t, s: [x for d, v in enumerate(l.at(t, s)) for x in digits(v, sizes[d], list(range(len(sizes[d]))))]), f"reshape({text}, {shape})")
    if "divide" in what:
        g, name, _ = product(rank, 1, 30)
        if what == "divide":
            register(l, f"divide(({text})*({name}), {name})")
        else:
            register(g, f"left_divide(({text})*({name}), {text})")
for _ in range(25):
    l, text, _ = product(R.randint(1, 3), cells=300)
    index = [R.randrange(n) for n in l.shape]
    held = [(t, s) for t in range(l.threads) for s in range(l.slots) if l.at(t, s) == index]
    add("register_query", {"expr": text, "index": index}, {"ok": True, "threads": sorted({t for t, _ in held}), "local": held[0][1]})
for n in (8, 16, 24, 40, 64, 96, 104, 128, 200, 256):
    l = Layout([64, n], 128, n // 2, lambda t, i: [16 * (t // 32) + t % 32 // 4 + 8 * (i // 2 % 2), 2 * (t % 4) + i % 2 + 8 * (i // 4)])
    add("wgmma_d", {"m": 64, "n": n, "inst_m": 64, "inst_n": n, "inst_k": 16}, {"ok": True, "threads": 128, "locals": n // 2, "map_sha256": sha(l.map())})

# Memory: offsets of all indices in row-major order.
def offsets(shape, at):
    return [at(i) for i in itertools.product(*map(range, shape))]


def shared(text, shape, at):
    o = offsets(shape, at)
    add("shared", {"expr": text}, {"ok": True, "count_size": max(o) + 1, "offsets_sha256": sha(o)})


def strided(shape, order):
    strides, n = [0] * len(shape), 1
    for d in reversed(order):
        strides[d], n = n, n * shape[d]
    return strides


xor = lambda x, base, bits, shift: x ^ (x >> shift & (1 << bits) - 1 << base)
for _ in range(25):
    shape = [R.choice([1, 2, 3, 4, 5, 8]) for _ in range(R.randint(1, 5))]
    column = R.random() < .5
    strides = strided(shape, list(range(len(shape)))[::-1 if column else 1])
    text, p = f"shared_{'column' if column else 'row'}_major({', '.join(map(str, shape))})", list(range(len(shape)))
    if R.random() < .4:
        R.shuffle(p)
        text += f".permute({p})"
    shared(text, [shape[d] for d in p], lambda i: sum(x * strides[d] for x, d in zip(i, p)))
for _ in range(25):
    size, rows = R.choice([1, 2, 4, 8]), R.choice([8, 16, 24, 64])
    lead = [R.choice([1, 2, 3])] if R.random() < .3 else []
    cols = 16 // size * R.choice([1, 2, 3, 4, 6, 8, 12, 16])
    row = cols * size
    bits = 3 if row % 128 == 0 else 2 if row % 64 == 0 else 1 if row % 32 == 0 else 0
    panel = (16 << bits) // size
    many = math.prod(lead) * rows

    def at(i):
        r = i[-2] + (i[0] * rows if lead else 0)
        o = i[-1] // panel * panel * many + r * panel + i[-1] % panel
        return xor(o, (16 // size).bit_length() - 1, bits, 3)

    if not lead:  # of more dimensions the definition leaves the order of panels open
        shared(f"shared_row_major_swizzle([{rows}, {cols}], {size})", [rows, cols], at)
for _ in range(30):
    bits, major, width = R.choice([("float16", 16), ("int8", 8), ("float32", 32), ("float8_e4m3", 8), ("bfloat16", 16)]), R.choice(["K", "MN"]), R.choice([("NO_SWIZZLE", 0), ("B32_SWIZZLE", 1), ("B64_SWIZZLE", 2), ("B128_SWIZZLE", 3)])
    per, b = 128 // bits[1], width[1]
    mn, k = (8, per << b) if major == "K" else (per << b, 8)
    m, kk = R.choice([1, 2, 3]), R.choice([1, 2, 4])
    block = mn * k
    step_m, step_k = (block, block * m) if major == "K" or b == 0 else (block * kk, block)
    if 0 < step_m * step_k:
        inner = lambda i, j: i * k + j if major == "K" else i + j * mn
        o = offsets([m * mn, kk * k], lambda i: xor(i[0] // mn * step_m + i[1] // k * step_k + inner(i[0] % mn, i[1] % k), per.bit_length() - 1, b, 3))
        add("generate_canonical", {"shape": [m * mn, kk * k], "dtype": bits[0], "major": major, "swizzle": width[0]}, {"ok": True, "offsets_sha256": sha(o), "m": m, "k": kk, "T": per})
for _ in range(12):
    shape = [R.randint(1, 9) for _ in range(R.randint(1, 4))]
    row = R.random() < .5
    strides, index = strided(shape, list(range(len(shape)))[::1 if row else -1]), [[R.randrange(n) for n in shape] for _ in range(5)]
    add("global", {"layout": f"{'row' if row else 'column'}_major_{'x'.join(map(str, shape))}", "indices": index}, {"ok": True, "offsets": [sum(a * b for a, b in zip(i, strides)) for i in index]})
    f, g = [R.randint(1, 5) for _ in range(2)], [R.randint(1, 5) for _ in range(2)]
    i = [R.randrange(a * b) for a, b in zip(f, g)]
    add("global_compose", {"outer": f"row_major({f[0]},{f[1]})", "inner": f"row_major({g[0]},{g[1]})", "index": i},
        {"ok": True, "offset": (i[0] // g[0] * f[1] + i[1] // g[1]) * g[0] * g[1] + i[0] % g[0] * g[1] + i[1] % g[1]})
    base, b, size = R.randint(0, 4), R.randint(1, 3), R.choice([1, 2, 4, 8])
    add("byte_swizzle", {"base": base, "bits": b, "shift": 3, "nbytes": size}, {"ok": True, "base": base + size.bit_length() - 1, "bits": b, "shift": 3})
    lanes, cols = R.choice([32, 64, 128]), [R.choice([1, 2, 3, 8, 32]) for _ in range(R.randint(1, 3))]
    steps = [0] + [math.prod(cols[i + 1:]) for i in range(len(cols))]
    add("tmem_row_major", {"shape": [lanes] + cols}, {"ok": True, "shape": [lanes] + cols, "column_strides": steps, "lane_offset": 0})
    part = R.choice([n for n in (32, 64, 128) if n <= lanes])
    first = R.choice(range(0, lanes - part + 1, 32))
    dims = [0] + sorted(R.sample(range(1, len(cols) + 1), R.randint(1, len(cols))))
    add("tmem_slice", {"base": [lanes] + cols, "lane_offset": first, "slice_dims": dims, "shape": [part] + [cols[d - 1] for d in dims[1:]]},
        {"ok": True, "shape": [part] + [cols[d - 1] for d in dims[1:]], "column_strides": [steps[d] for d in dims], "lane_offset": first})
for _ in range(60):
    shape = [R.choice([1, 2, 3, 4, 6]) for _ in range(R.randint(1, 3))]
    modes = [p for n in shape for p in ({1: [], 4: [2, 2], 6: [2, 3]}.get(n, [n]))]

    def random_map():
        m = R.sample(range(len(modes)), R.randint(0, len(modes)))
        return [x if R.random() < .6 else -modes[x] for x in m]

    def values(picked, x):
        d = digits(x, modes, list(range(len(modes))))
        sizes = [modes[p] if p >= 0 else -p for p in picked]
        return {sum(c * math.prod(sizes[i + 1:]) for i, c in enumerate(at)) for at in itertools.product(*[[d[p]] if p >= 0 else range(-p) for p in picked])}, math.prod(sizes)

    a = random_map()
    b = [x if x < 0 or R.random() < .8 else -modes[x] for x in a] if R.random() < .7 else random_map()
    if values(a, 0)[1] != values(b, 0)[1]:
        continue  # images of different sizes
    add("mfunction_cover", {"fa": [shape, modes, a], "fb": [shape, modes, b]}, {"ok": True, "value": all(values(b, x)[0] <= values(a, x)[0] for x in range(math.prod(shape)))})
for _ in range(25):
    bits, rows, cols = R.randint(1, 8), 16 * R.choice([1, 2, 3, 4]), 8 * R.choice([1, 2, 3, 4])
    each = bits * rows * cols // 32
    e = {"ok": False, "bits_per_thread": each}
    if each % 8 == 0:
        n = each // 8
        e = {"ok": True, "bytes_per_thread": n, "n1": math.gcd(n, 16), "n2": n // math.gcd(n, 16), "tile_bytes": 32 * n}
    add("weight_view", {"nbits": bits, "tile": [rows, cols]}, e)
for _ in range(40):  # first fit in free memory, addresses and sizes multiples of the alignment
    free, held, ops, at, peak = [(0, 1 << 40)], {}, [], [], 0
    for i in range(R.randint(1, 16)):
        if held and R.random() < .45:
            name = R.choice(sorted(held))
            ops.append(["f", name])
            merged = []
            for a, b in sorted(free + [held.pop(name)]):
                if merged and merged[-1][1] == a:
                    a = merged.pop()[0]
                merged.append((a, b))
            free = merged
            continue
        name, size, align = f"t{i}", R.choice([1, 100, 128, 512, 1000, 4096]), R.choice([128, 256, 512, 1024])
        ops.append(["a", name, size, align])
        up = lambda x: -(-x // align) * align
        j = next(j for j, (a, b) in enumerate(free) if up(a) + up(size) <= b)
        a, b = free.pop(j)
        held[name] = (up(a), up(a) + up(size))
        free = sorted(free + [x for x in ((a, up(a)), (up(a) + up(size), b)) if x[0] < x[1]])
        at.append([name, up(a)])
        peak = max(peak, up(a) + up(size))
    add("smem_alloc", {"ops": ops}, {"ok": True, "addresses": at, "peak": peak})
for name, size, rows, cols in [(l, s, 8, c) for l in ("row_major", "swizzled") for s in (1, 2, 4) for c in (16, 32, 64, 128, 256)]:
    if cols * size % 16:
        continue
    row = cols * size
    bits = 3 if row % 128 == 0 else 2 if row % 64 == 0 else 1 if row % 32 == 0 else 0
    panel = 16 << bits
    worst = 0
    for chunk in range(row // 16):
        groups = [0] * 8
        for r in range(8):
            at = r * row + 16 * chunk if name == "row_major" else xor(16 * chunk // panel * panel * rows + r * panel + 16 * chunk % panel, 4, bits, 3)
            groups[at // 16 % 8] += 1
        worst = max(worst, *groups)
    add("ldmatrix_bank_degree", {"layout": name, "shape": [rows, cols], "nbytes": size}, {"ok": True, "max_rows_per_16B_bank_group": worst})
for n in R.sample(range(1, 300), 10) + R.sample(range(300, 1 << 24), 10) + [1 << 20, (1 << 20) + 1]:
    step = 1 << max(0, n.bit_length() - 2)
    add("tuning_key", {"value": n}, {"ok": True, "bucket": -(-n // step) * step})
print("[" + ",\n".join(json.dumps(c) for c in out) + "]")
