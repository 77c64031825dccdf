"""Cases about hardware models, from small implementations of what vendors document (CUDA's and PTX's manuals, HSA's
headers, ROCclr, amdkfd, measurements of V100) and of rules R1 to R5 of gpu/model/dispatch; they share no code with ours.

    python3 hw.py SEED MOST > hw.json    at most so many cases of a kind

Only the standard library and numpy are wanted.
"""
import hashlib, itertools, json, math, random, struct, sys
from fractions import Fraction
import numpy as np

R = random.Random(int(sys.argv[1]))
out = []


def add(kind, input, expect):
    out.append({"kind": kind, "input": input, "expect": expect})


# Shared memory: banks of four bytes, phases of lanes; the degree is the most distinct words of one bank.
def degree(pairs, banks=32):
    words = {}
    for a, w in pairs:
        for x in range(a // 4, (a + w - 1) // 4 + 1):
            words.setdefault(x % banks, set()).add(x)
    return max((len(v) for v in words.values()), default=0)


def wide(addrs, w):
    n = {8: 16, 16: 8}.get(w, 32)
    return [d for i in range(0, 32, n) if (d := degree([(a, w) for a in addrs[i:i + n] if a is not None]))]


for _ in range(120):
    w = R.choice([1, 2, 4, 8, 16])
    lanes = R.choice([32, 32, 32, 1, 7, 16, 17, 24])
    stride = R.choice([0, 1, 2, 3, 5, 8, 12, 16, 31, 32, 33, 64, 65])
    addrs = [i * stride * w for i in range(lanes)] if R.random() < .5 else [R.randrange(4096 // w) * w for _ in range(lanes)]
    if R.random() < .4:
        addrs = [None if R.random() < .3 else a for a in addrs]
    if R.random() < .1:
        addrs = [None] * lanes
    d = wide(addrs, w)
    add("smem.access", {"width_bytes": w, "addrs": addrs}, {"phases": len(d), "per_phase_degree": d, "wavefronts": sum(d)})
for w in (1, 2, 4, 8, 16):
    a = R.randrange(64) * w
    d = wide([a] * 32, w)
    add("smem.access", {"width_bytes": w, "addrs": {"all_lanes": a}}, {"per_phase_degree": d, "wavefronts": sum(d)})


def swizzle(a, b, m, s):
    mask = (1 << b) - 1
    return a ^ (((a >> (m + s)) & mask) << m) if s >= 0 else a ^ (((a >> m) & mask) << (m - s))


for _ in range(40):
    n = R.choice([1, 2, 4])
    stride = 16 * R.randint(0, 40)
    rows = [stride * i for i in range(8 * n)] if R.random() < .7 else [16 * R.randrange(512) for _ in range(8 * n)]
    s = [R.choice([(1, 4, 3), (2, 4, 3), (3, 4, 3), (3, 4, 4), (2, 5, 2), (1, 6, 1), (3, 7, -3), (0, 4, 3), (5, 4, 5)])]
    e = {"none": [degree([(a, 16) for a in rows[i:i + 8]]) for i in range(0, 8 * n, 8)]}
    e["<%d,%d,%d>" % s[0]] = [degree([(swizzle(a, *s[0]), 16) for a in rows[i:i + 8]]) for i in range(0, 8 * n, 8)]
    add("smem.ldmatrix", {"row_addrs": rows, "swizzles_bytes_BMS": s}, {"per_phase_degree": e})
for _ in range(25):
    c = [[b := R.randint(0, 6), R.randint(0, 8), R.choice([-1, 1]) * R.randint(b, 8), R.randrange(1 << 20)] for _ in range(8)]
    add("swizzle.apply", {"cases": c}, {"results": [swizzle(a, b, m, s) for b, m, s, a in c]})
    c = [[R.randint(-1, 5), R.randint(-1, 5), R.randint(-6, 6)] for _ in range(8)]
    add("swizzle.validate", {"cases": c}, {"valid": [b >= 0 and m >= 0 and abs(s) >= b for b, m, s in c]})
    b, s, m, e = R.randint(0, 4), R.randint(4, 6), R.randint(0, 4), R.randint(0, 4)
    add("swizzle.recast", {"element_bytes": 1 << e, "element_BMS": [b, m, s]}, {"byte_BMS": [b, m + e, s]})
for b, m, s, rows, cols in [(b, m, s, r, c) for b in (0, 1, 2, 3) for m in (0, 1, 2) for s in (-3, 3, 4) for r in (4, 8, 16) for c in (8, 16, 64) if b <= abs(s)][::3]:
    at = [[swizzle(r * cols + c, b, m, s) for c in range(cols)] for r in range(rows)]
    add("swizzle.table", {"B": b, "M": m, "S": s, "rows": rows, "cols": cols},
        {"physical_col": [[a % cols for a in r] for r in at], "row_unchanged": all(a // cols == r for r in range(rows) for a in at[r])})
for p in range(10):
    c = {R.randrange(1 << 16) for _ in range(8)}
    add("smem.rule", {"addresses": sorted(c)}, {"banks": [a // 4 % 32 for a in sorted(c)]})
for t in range(10):
    table = {str(s): math.gcd(s, 32) for s in R.sample(range(1, 300), 12)}
    add("smem.rule", {"desc": "lane i reads float word i*s"}, {"degree": "gcd(s,32)", "table": table})
for t in range(10):
    cases = []
    for _ in range(6):
        w = R.choice([4, 8, 16])
        bits = [R.randrange(512) * w for _ in range(5)]
        a = [0] * 32
        for l in range(32):
            for b in range(5):
                a[l] ^= bits[b] * (l >> b & 1)
        d = wide(a, w)
        assert len(set(d)) == 1
        cases.append({"desc": "x", "lane_bit_bytes": bits, "width_bytes": w, "degree_each_phase": d[0]})
    add("smem.rule", {"desc": "address is XOR-linear in lane bits"}, {"cases": cases})
for stride in range(16, 700, 16):
    for s in ((3, 4, 3), (2, 4, 3), (3, 4, 4)):
        if R.random() < .3:
            rows = [stride * i for i in range(8)]
            add("smem.property", {"row_stride": stride, "swizzle_bytes_BMS": s},
                {"degree_padding_only": degree([(a, 16) for a in rows]), "degree_swizzle_on_padded_rows": degree([(swizzle(a, *s), 16) for a in rows])})

# AMD's local data share: reads of 16 bytes in phases that lane bits choose.
bit = lambda l, b: l >> b & 1
phase = {"MI300": lambda l: bit(l, 5) | (bit(l, 2) ^ bit(l, 4)) << 1 | bit(l, 3) << 2, "MI350": lambda l: bit(l, 5) | (bit(l, 2) ^ bit(l, 3) ^ bit(l, 4)) << 1}
for name, banks, names in (("MI300", 32, ["t5", "t2^t4", "t3"]), ("MI350", 64, ["t5", "t2^t3^t4"])):
    add("lds.phase_map", {"device": name, "instr": "ds_read_b128", "banks": banks, "lanes": 64},
        {"phase_of_lane": [phase[name](l) for l in range(64)], "phase_bits": names, "phases": 1 << len(names)})
for _ in range(60):
    k = R.random()
    if k < .3:
        addrs = [16 * R.randrange(4096) for _ in range(64)]
    elif k < .6:
        stride = 16 * R.randint(0, 40)
        addrs = [stride * i for i in range(64)]
    else:
        row, s = R.choice([64, 128, 144, 256, 272]), R.choice([(0, 4, 3), (3, 4, 3), (3, 4, 4), (2, 4, 3)])
        addrs = [swizzle(row * (l % 16) + 16 * (l // 16), *s) for l in range(64)]
    by = lambda f, banks, n: [degree([(a, 16) for l, a in enumerate(addrs) if f(l) == p], banks) for p in range(n)]
    add("lds.access", {"instr": "ds_read_b128", "addrs": addrs},
        {"mi300_degrees": by(phase["MI300"], 32, 8), "mi350_degrees": by(phase["MI350"], 64, 4), "naive_contiguous_phases_32_banks": by(lambda l: l // 8, 32, 8)})

# Swizzle searches, by trying all.
def patterns(row, texts):
    accesses = []
    for t in texts:
        if t.startswith("16-byte row-major store"):
            lanes = row // 16
            accesses += [("st", [l // lanes * row + l % lanes * 16 for l in range(32)])]
        if t.startswith("ldmatrix.x4"):
            accesses += [("ld", [l % 16 * row + l // 16 * 16 for l in range(32)])]
    return accesses


for row in (32, 64, 128, 256, 512):
    acc = patterns(row, ["16-byte row-major store", "ldmatrix.x4"])
    cost = lambda f: sum(degree([(f(a), 16) for a in ad[i:i + 8]]) for _, ad in acc for i in range(0, 32, 8))
    all_ = {(b, m, s): cost(lambda a: swizzle(a, b, m, s)) for b in range(6) for m in range(4, 7) for s in range(1, 8) if s >= b}
    best = min(all_.values())
    least = min(b for (b, m, s), c in all_.items() if c == best)
    if least == 0:
        continue
    add("swizzle.search", {"tile": f"{row // 2}-half rows ({row} B)", "patterns": [f"16-byte row-major store, {row // 16} lanes per row", "ldmatrix.x4 of a 16x16 sub-tile"], "min_M": 4,
                           "space": {"B": [0, 5], "M": [4, 6], "S": [1, 7], "unit": "bytes"}},
        {"best_wavefronts": best, "minimal_B": least, "identity_wavefronts": cost(lambda a: a), "solutions_BMS": sorted([list(k) for k, c in all_.items() if c == best and k[0] == least])})

# TMA.
modes = {"32B": (1, 4, 3), "64B": (2, 4, 3), "128B": (3, 4, 3), "128B_ATOM_32B": (2, 5, 2), "128B_ATOM_64B": (1, 6, 1)}
for mode, bms in modes.items():
    period = 1 << sum(bms)
    place = {}
    for a in range(0, period, 16):
        place[swizzle(a, *bms)] = a
    rows = [[place[128 * r + 16 * c] % 128 // 16 for c in range(8)] for r in range(period // 128)]
    add("tma.swizzle_table", {"mode": mode}, {"chunk_at_position": rows, "repeat_bytes": period, "cute_bytes_BMS": list(bms)})
    for _ in range(6):
        rb, base = R.choice([32, 64, 128, 256]), 128 * R.randrange(64)
        logical = [[R.randrange(64), R.randrange(rb)] for _ in range(8)]
        add("tma.swizzle", {"mode": mode, "tile_base": base, "logical": logical, "row_bytes": rb}, {"physical": [swizzle(base + r * rb + b, *bms) for r, b in logical]})
lines = {"128B": 8, "64B": 4, "32B": 2, "96B": 2}
for _ in range(10):
    c = [[m := R.choice(list(lines)), 128 * R.randrange(4096)] for _ in range(8)]
    add("tma.base_offset", {"cases": c}, {"base_offset": [a // 128 % lines[m] for m, a in c]})
for _ in range(40):
    size, mode = R.choice([1, 2, 4, 8, 16]), R.choice(["32B", "64B", "128B"])
    nx = R.choice([32, 64, 128]) // size
    xy = [[R.randrange(nx), R.randrange(64)] for _ in range(6)]
    px, py = [], []
    for x, y in xy:
        a = swizzle((y * nx + x) * size, *modes[mode]) // size
        px.append(a % nx), py.append(a // nx)
    add("tma.seed_formula", {"sizeof": size, "NX": nx, "mode": mode, "xy": xy}, {"swz_x": px, "swz_y": py})
for _ in range(60):
    mode, arch = R.choice(["none", "128B", "64B", "32B"]), R.choice(["sm_90", "sm_100"])
    start, lead, stride = 16 * R.randrange(1 << 14), 16 * R.randrange(1 << 14), 16 * R.randrange(1 << 14)
    base = R.randrange({"128B": 8, "64B": 4, "32B": 2}.get(mode, 1))
    code = {"none": 0, "128B": 1, "64B": 2, "32B": 3}[mode] << 62
    if arch == "sm_100":
        code = {"none": 0, "128B": 2, "64B": 4, "32B": 6}[mode] << 61 | 1 << 46
    word = start >> 4 | lead >> 4 << 16 | stride >> 4 << 32 | base << 49 | code
    i = {"start": start, "lbo_bytes": lead, "sbo_bytes": stride, "base_offset": base, "mode": mode}
    if arch == "sm_100":
        i["arch"] = arch
    add("wgmma.descriptor", i, {"lbo_enc": lead >> 4, "sbo_enc": stride >> 4, "u64_hex": hex(word)})

# Volta: who holds what (formulas of the PTX manual), and products of integers.
def octet(l):
    return l // 4 % 4, l // 16, l % 4


m884 = {"A_row": lambda p, h, l, i: (p + 4 * h, i), "A_col": lambda p, h, l, i: (i % 4 + 4 * h, p), "B_row": lambda p, h, l, i: (p, i + 4 * h),
        "B_col": lambda p, h, l, i: (i, p + 4 * h), "C_f16": lambda p, h, l, i: (p + 4 * h, i), "C_f32": lambda p, h, l, i: ((l & 1) + (i & 2) + 4 * h, (i & 4) + (l & 2) + (i & 1))}
for operand, f in m884.items():
    for q in range(4):
        lanes = list(range(4 * q, 4 * q + 4)) + list(range(4 * q + 16, 4 * q + 20))
        add("volta.fragment", {"op": "mma.m8n8k4.f16", "operand": operand, "quadpair": q, "lanes": lanes},
            {"coords_row_col": {str(l): [list(f(l % 4, l // 16, l, i)) for i in range(8 if operand[0] == "C" else 4)] for l in lanes}})
for operand, layout in (("A", "row"), ("A", "col"), ("B", "row"), ("B", "col"), ("C", "f32"), ("C", "f16")):
    lanes = R.sample(range(32), 12)
    coords = {}
    for l in lanes:
        q, h, p = octet(l)
        r0, c0 = 8 * (q & 1), 8 * (q // 2)
        coords[str(l)] = [list({"Arow": lambda i: (r0 + 4 * h + p, i), "Acol": lambda i: (r0 + 4 * h + i % 4, p + 4 * (i // 4)), "Bcol": lambda i: (i, c0 + 4 * h + p),
                                "Brow": lambda i: (p + 4 * (i // 4), c0 + 4 * h + i % 4), "Cf32": lambda i: (r0 + 4 * h + (l & 1) + (i & 2), c0 + (l & 2) + (i & 1) + (i & 4)),
                                "Cf16": lambda i: (r0 + 4 * h + p, c0 + i)}[operand + layout](i)) for i in range(8 if operand[0] == "C" else 16)]
    add("volta.wmma_fragment", {"shape": "m16n16k16", "operand": operand, "type" if operand == "C" else "layout": layout, "lanes": lanes}, {"coords_row_col": coords})
f2 = {"wmma16.A_row": "10 20 80 00 40|01 02 04 08", "wmma16.A_col": "01 02 80 00 40|10 20 04 08", "wmma16.B_col": "01 02 00 08 04|10 20 40 80", "wmma16.B_row": "10 20 00 08 04|01 02 40 80",
      "wmma16.C_f32": "10 02 80 08 40|01 20 04", "wmma16.C_f16": "10 20 80 08 40|01 02 04"}
for name, text in f2.items():
    lane, reg = [[[int(c) for c in v] for v in part.split()] for part in text.split("|")]
    add("layout.f2_basis", {"fragment": name, "shape": "m16n16k16"}, {"lane_bits": lane, "reg_bits": reg})
for _ in range(30):
    a, b, m = R.randint(1, 9), R.randint(1, 9), R.choice([3, 5, 7, 11])
    c, d, n = R.randint(1, 9), R.randint(1, 9), R.choice([3, 5, 6])
    e, f = R.randint(1, 3), R.randint(1, 3)
    i16 = np.arange(16)
    A = (a * i16[:, None] + b * i16[None]) % m - m // 2
    B = (c * i16[:, None] + d * i16[None]) % n - n // 2
    C = e * i16[:, None] - f * i16[None]
    D = A @ B + C
    add("volta.gemm", {"A": f"A[i][k]=(({a}i+{b}k) mod {m})-{m // 2}", "B": f"B[k][j]=(({c}k+{d}j) mod {n})-{n // 2}", "C": f"C[i][j]={e}i-{f}j", "types": "A,B fp16; C,D fp32"},
        {"D_row0": D[0].tolist(), "D_row15": D[15].tolist(), "sum": int(D.sum()), "sum_sq": int((D * D).sum()), "sha256_int32_le_rowmajor": hashlib.sha256(D.astype("<i4").tobytes()).hexdigest(),
         "after_set_sum": [int((A[:, :4 * s + 4] @ B[:4 * s + 4] + C).sum()) for s in range(4)]})
A, B = (3 * i16[:, None] + 5 * i16[None]) % 7 - 3, (2 * i16[:, None] + 3 * i16[None]) % 5 - 2
D = i16[:, None] - i16[None]
for s in range(4):
    for t in range(4):
        cells = set()
        for q in range(4):
            for h in range(2):
                rows = [8 * (q & 1) + 4 * h + 2 * (t % 2) + r for r in range(2)]
                cols = [8 * (q // 2) + 4 * (t // 2) + c for c in range(4)]
                for r, c in itertools.product(rows, cols):
                    D[r, c] += A[r, 4 * s:4 * s + 4] @ B[4 * s:4 * s + 4, c]
                    cells.add((r, c))
        e = {"D_rows0_1_cols0_3": D[:2, :4].tolist(), "sum": int(D.sum()), "updated_cells": len(cells), "updated_rows": sorted({r for r, _ in cells}), "updated_cols": sorted({c for _, c in cells})}
        add("volta.gemm_trace", {"case": "volta.gemm.integer", "after": f"SET{s}.STEP{t}"}, e)

# One addition of a tensor core: addends cut to 24 bits of the largest exponent (V100), or 25 (T4), one rounding.
def exponent(x):
    return math.frexp(x)[1] - 1


def cut(x, unit):  # toward zero
    n = abs(x) / unit
    return (n.numerator // n.denominator) * unit * (1 if x > 0 else -1)


for _ in range(90):
    kind = R.choice(["f32", "f32", "f16"])
    half = lambda: float(np.float16(R.uniform(-2, 2) * 2.0 ** R.choice([0, 0, -3, -8, -12, -14, 5])))
    products = [half() * half() for _ in range(4)]
    c = half() if kind == "f16" else float(np.float32(R.uniform(-4, 4) * 2.0 ** R.choice([0, -10, -20, 8, 12]))) * R.choice([0, 1, 1])
    device, bits = R.choice([("V100", 24), ("V100", 24), ("T4", 25)])
    addends = [Fraction(x) for x in [c] + products]
    top = max((exponent(x) for x in [c] + products if x), default=0)
    total = sum(cut(x, Fraction(2) ** (top - bits + 1)) for x in addends)
    if kind == "f16":
        with np.errstate(over="ignore"):
            result = float(np.float16(float(total)))  # 27 bits fit a double
    else:
        result = float(cut(total, Fraction(2) ** (max(exponent(float(total)), -126) - 23))) if total else 0.0
    if not math.isinf(result):
        add("volta.numeric", {"c": c, "products": products, "out": kind, "device": device}, {"result": result, "result_hex_float": float.hex(result), "exact_sum": float(sum(addends))})

# Fragments of mma.sync: formulas of the PTX manual, with group g = lane / 4 and place t = lane % 4.
ptx = {"mma.m16n8k8.f16": (4, 2, 2), "mma.m16n8k16.f16": (8, 4, 2), "mma.m16n8k8.bf16": (4, 2, 2), "mma.m16n8k16.bf16": (8, 4, 2), "mma.m16n8k4.tf32": (2, 1, 1), "mma.m16n8k8.tf32": (4, 2, 1),
       "mma.m16n8k16.s8": (8, 4, 4), "mma.m16n8k32.s8": (16, 8, 4), "mma.m16n8k32.e4m3": (16, 8, 4), "mma.m16n8k32.s4": (16, 8, 8), "mma.m16n8k64.s4": (32, 16, 8), "mma.m16n8k128.b1": (64, 32, 32), "mma.m16n8k256.b1": (128, 64, 32)}
for op, (na, nb, per) in ptx.items():
    for operand, n in (("A", na), ("B", nb), ("C", 4)):
        coords = {}
        lanes = R.sample(range(32), 2)
        for l in lanes:
            g, t = l // 4, l % 4
            coords[str(l)] = [[g + 8 * (i // per % 2), per * t + i % per + 4 * per * (i // per // 2)] if operand == "A" else [per * t + i % per + 4 * per * (i // per), g] if operand == "B" else [g + 8 * (i // 2), 2 * t + i % 2] for i in range(n)]
        add("mma.fragment", {"op": op, "operand": operand, "lanes": lanes}, {"coords_row_col": coords})

# AQL packets, as HSA's headers lay them out.
def u64():
    return R.choice([0, R.randrange(1 << 47), (1 << 64) - 1, R.randrange(1 << 64)])


for _ in range(50):
    header = 2 | R.randrange(2) << 8 | R.randrange(3) << 9 | R.randrange(3) << 11
    dims = R.randint(1, 3)
    wg = [R.randint(1, 1024 if d == 0 else 4) if d < dims else 1 for d in range(3)]
    grid = [R.randint(1, 5000) if d < dims else 1 for d in range(3)]
    private, group, obj, arg, sig = R.randrange(1 << 20), R.randrange(1 << 16), u64(), u64(), u64()
    raw = struct.pack("<HHHHHHIIIIIQQQQ", header, dims, *wg, 0, *grid, private, group, obj, arg, 0, sig)
    add("aql.encode", {"header": hex(header), "setup": dims, "workgroup": wg, "grid": grid, "private": private, "group": group, "kernel_object": hex(obj), "kernarg": hex(arg), "completion_signal": hex(sig)},
        {"hex": raw.hex(), "first_dword": hex(header | dims << 16), "work_groups": math.prod(-(-g // w) for g, w in zip(grid, wg))})
for _ in range(20):
    header = R.choice([3, 5]) | R.randrange(2) << 8 | R.randrange(3) << 9 | R.randrange(3) << 11
    deps, sig = [u64() for _ in range(R.randint(0, 5))], u64()
    raw = struct.pack("<HHI5QQQ", header, 0, 0, *(deps + [0] * 5)[:5], 0, sig)
    add("aql.encode", {"header": hex(header), "dep_signals": [hex(d) for d in deps], "completion_signal": hex(sig)}, {"hex": raw.hex(), "first_dword": hex(header)})
for h in [0x0b02, 0x0a02, 0x1502, 0x1503, 0x0103, 0x0503, 0x1103, 0x1500, 1] + [R.choice([0, 1, 2, 3, 4, 5]) | R.randrange(2) << 8 | R.randrange(3) << 9 | R.randrange(3) << 11 for _ in range(20)]:
    add("aql.header", {"header": hex(h)}, {"type": ["vendor_specific", "invalid", "kernel_dispatch", "barrier_and", "agent_dispatch", "barrier_or"][h & 255], "barrier": h >> 8 & 1, "acquire": h >> 9 & 3, "release": h >> 11 & 3})
for _ in range(60):
    packets, signals, start, finish, done = [], {}, [], [], {}
    for i in range(R.randint(1, 9)):
        # A packet begins once those before it have begun; with the barrier bit, once they have ended.
        begin = max(start, default=0)
        p = {"type": "k", "dur": R.randint(1, 6), "barrier": R.randrange(2)}
        if p["barrier"]:
            begin = max([begin] + finish)
        packets.append(p), start.append(begin), finish.append(begin + p["dur"])
    add("aql.order", {"packets": packets}, {"start": start, "finish": finish})

# ROCm's queues.
for _ in range(80):
    most = R.choice([1, 2, 3, 4, 4, 8])
    ops, alive = [], []
    for i in range(R.randint(1, 20)):
        if alive and R.random() < .4:
            ops.append(["destroy", alive.pop(R.randrange(len(alive)))])
        else:
            ops.append(["create", f"s{i}"]), alive.append(f"s{i}")
    e = {}
    for policy in ("rocm_4.2", "rocm_6.x"):
        users, where = [], {}
        for op, s in ops:
            if op == "destroy":
                users[where.pop(s)] -= 1
                continue
            if policy == "rocm_6.x" and 0 in users:
                q = users.index(0)
            elif len(users) < most:
                q = len(users)
                users.append(0)
            else:
                q = users.index(min(users))
            users[q] += 1
            where[s] = q
        e[policy] = {"stream_to_queue": where, "refcounts": users}
    add("rocm.queue_pool", {"max_hw_queues": most, "ops": ops}, e)
for _ in range(30):
    s, g = R.getrandbits(60), R.getrandbits(60) & R.getrandbits(60) | 1
    if R.random() < .3:
        s &= ~g
    add("rocm.cu_mask", {"stream_mask": hex(s), "global_mask": hex(g)}, {"final_mask": hex(s & g or g)})
for _ in range(40):
    order = [R.choice("abcde"[:R.randint(1, 5)]) for _ in range(R.randint(1, 20))]
    bits, last, slot = [], {}, -1
    for i, s in enumerate(order):
        need = s in last and slot <= last[s]
        bits.append(int(need))
        if need:
            slot = i
        last[s] = i
    add("rocm.barrier", {"one_hw_queue_submission_order": order}, {"barrier_bit": bits, "legacy_barrier_bit": [1] * len(order)})
for _ in range(40):
    se, sh, cu = R.choice([1, 2, 4, 6, 8]), R.choice([1, 1, 2]), R.choice([1, 5, 8, 10, 14, 15, 16])
    mask, per = R.getrandbits(se * sh * cu) | 1, [0] * se
    bits = iter(range(se * sh * cu))
    for c in range(cu):
        for h in range(sh):
            for s in range(se):
                if mask >> next(bits) & 1:
                    per[s] |= 1 << (c + 16 * h)
    add("kfd.cu_mask", {"shader_engines": se, "sh_per_se": sh, "cu_per_sh": cu, "mask_hex": hex(mask)}, {"se_mask_hex": [hex(p) for p in per], "cus_per_se": [bin(p).count("1") for p in per]})
for n in (1, 2, 3, 4, 6, 8):
    b = R.sample(range(300), 10)
    add("kfd.cu_mask_rule", {"num_xcc": n, "bits": b}, {"xcc_of_bit": [x % n for x in b]})
for _ in range(20):
    mec, pipes, per, keep = R.choice([1, 2]), R.choice([1, 2, 4]), R.choice([4, 8]), R.choice([0, 1, 4, 8])
    total = mec * pipes * per
    if keep >= total:
        continue
    add("kfd.queues", {"num_mec_used": mec, "pipes_per_mec": pipes, "queues_per_pipe": per, "kernel_compute_queues": keep},
        {"hqds_total": total, "hqds_for_user_queues": total - keep, "processes_with_4_queues_before_oversubscription": (total - keep) // 4})
    most = R.randint(1, 10)
    c = [[R.randint(1, 12), R.randint(1, 40)] for _ in range(8)]
    add("kfd.runlist", {"max_proc_per_quantum": most, "hqds": total, "cases": c}, {"oversubscribed": [p > most or q > total for p, q in c]})

# Dispatch, by rules R1 to R5.
def dispatch(kernels, ses, cus, room, skip=False, cut=True):
    """kernels: name, blocks, ticks, threads, ace, mask (cus of each engine as bits), arrive. Returns starts by kernel."""
    free = [[room] * cus for _ in range(ses)]
    slots = [[None] * 4 for _ in range(ses)]
    cu_at, ace_at = [0] * ses, [0] * ses
    lists = [[] for _ in range(4)]
    state = [{"k": k, "dealt": 0, "start": [None] * k["blocks"]} for k in kernels]
    ends, t, todo = {}, 0, sorted({k["arrive"] for k in kernels})
    for guard in range(100000):
        for s, c, threads in ends.pop(t, []):
            free[s][c] += threads
        for st in state:
            if st["k"]["arrive"] == t:
                lists[st["k"]["ace"]].append(st)
        moved = True
        while moved:
            moved = False
            for s in range(ses):
                for d in range(4):
                    a = (ace_at[s] + d) % 4
                    if slots[s][a] is None:
                        continue
                    st, block = slots[s][a]
                    k = st["k"]
                    for e in range(cus):
                        c = (cu_at[s] + e) % cus
                        if k["mask"][s] >> c & 1 and free[s][c] >= k["threads"]:
                            free[s][c] -= k["threads"]
                            slots[s][a] = None
                            cu_at[s], ace_at[s] = (c + 1) % cus, (a + 1) % 4
                            st["start"][block] = t
                            ends.setdefault(t + k["ticks"], []).append((s, c, k["threads"]))
                            moved = True
                            break
                    else:
                        if cut:
                            continue
                    break
            for a in range(4):
                while lists[a] and lists[a][0]["dealt"] == lists[a][0]["k"]["blocks"]:
                    lists[a].pop(0)
                if not lists[a]:
                    continue
                st = lists[a][0]
                k = st["k"]
                engines = [s for s in range(ses) if k["mask"][s]]
                n = st["dealt"] % len(engines)
                tries = engines[n:] + engines[:n] if skip else [engines[n]]
                for s in tries:
                    fits = any(k["mask"][s] >> c & 1 and free[s][c] >= k["threads"] for c in range(cus))
                    if slots[s][a] is None and (fits or not skip):
                        slots[s][a] = (st, st["dealt"])
                        st["dealt"] += 1
                        moved = True
                        break
        nexts = list(ends) + [x for x in todo if x > t]
        if not nexts:
            break
        t = min(nexts)
    return {st["k"]["name"]: st["start"] for st in state}, t


for n in range(150):
    ses, cus, room = R.choice([1, 2, 3, 4]), R.choice([1, 2, 3, 5, 15]), R.choice([1024, 2560])
    kernels = []
    for i in range(R.randint(1, 4)):
        mask = [R.getrandbits(cus) if R.random() < .5 else (1 << cus) - 1 for _ in range(ses)] if R.random() < .5 else [(1 << cus) - 1] * ses
        if not any(mask):
            mask[0] = 1
        kernels.append({"name": f"k{i}", "blocks": R.randint(1, 40), "ticks": R.randint(1, 7), "threads": R.choice([64, 256, 512, 1024]), "ace": R.randrange(4), "mask": mask, "arrive": R.choice([0, 0, 1, 2, 5])})
    # Of one engine, kernels are listed in order of arrival.
    e = {}
    variant = R.choice(["", "", "_skip", "_no_cut"])
    starts, end = dispatch(kernels, ses, cus, room, variant == "_skip", variant != "_no_cut")
    for k in kernels:
        e[k["name"] + "_starts" + variant] = starts[k["name"]]
        e[k["name"] + "_finish" + variant] = max(starts[k["name"]]) + k["ticks"]
    if not variant:
        e["ticks"] = end
    ask = [{**{x: k[x] for x in ("name", "blocks", "ticks", "threads", "ace", "arrive")}, "se_mask": [hex(m) for m in k["mask"]]} for k in kernels]
    add("dispatch.events", {"kernels": ask, "shader_engines": ses, "cu_per_se": cus, "cu_threads": room}, e)
for _ in range(12):
    ses, cus, blocks, threads, ticks = R.choice([1, 2, 3, 4, 6]), R.choice([2, 5, 10, 15]), R.randint(1, 1500), R.choice([256, 512, 1024]), R.randint(1, 3)
    rows = {}
    for n in R.sample(range(1, ses * cus + 1), min(6, ses * cus)):
        def span(counts, order=True):
            engines = [c for c in counts if c]
            fit = 2560 // threads
            if not order:
                return ticks * -(-blocks // (sum(engines) * fit))
            return ticks * max(-(-len(range(j, blocks, len(engines))) // (c * fit)) for j, c in enumerate(engines))
        packed = [min(cus, max(0, n - cus * s)) for s in range(ses)]
        even = [n // ses + (s < n % ses) for s in range(ses)]
        rows[str(n)] = {"packed": span(packed), "distributed": span(even), "no_order_rule_packed": span(packed, False)}
    add("dispatch.makespan", {"blocks": blocks, "threads_per_block": threads, "block_ticks": ticks, "cu_threads": 2560, "shader_engines": ses, "cu_per_se": cus}, {"ticks_by_cu_count": rows})
for _ in range(20):
    grid = [R.randint(1, 9) for _ in range(3)]
    b = [R.randrange(g) for g in grid]
    add("dispatch.rule", {"grid_blocks": grid, "block": b}, {"flattened_id": b[0] + b[1] * grid[0] + b[2] * grid[0] * grid[1]})
    ses, n = R.choice([1, 2, 3, 4, 7]), R.randint(1, 50)
    add("dispatch.deal", {"shader_engines": ses, "cu_per_se": R.choice([1, 4, 15]), "blocks": n, "mask": "all"}, {"se_of_block": [k % ses for k in range(n)]})
for _ in range(20):
    names = iter(f"k{i}" for i in range(99))
    queues = {f"q{i}": [next(names) for _ in range(R.randint(0, 5))] for i in range(R.randint(1, 5))}
    left, order = {q: list(k) for q, k in queues.items()}, []
    while any(left.values()):
        for q in left:
            if left[q]:
                order.append(left[q].pop(0))
    add("dispatch.ace", {"ace": 0, "queues": queues, "barrier_bits": 0, "quantum": "one packet"}, {"order": order})
for _ in range(30):
    room, cases, want = R.randint(1, 4), [], []
    for _ in range(6):
        n = R.randint(1, 8)
        waits = {str(i): sorted(R.sample([x for x in range(n) if x != i], R.randint(1, min(2, n - 1)))) for i in R.sample(range(n), R.randint(0, min(n, 3))) if n > 1}
        # Blocks begin in order while there is room and end once those that they wait for have ended.
        done, resident, next_ = set(), [], 0
        while len(done) < n:
            while next_ < n and len(resident) < room:
                resident.append(next_)
                next_ += 1
            can = [b for b in resident if all(w in done for w in waits.get(str(b), []))]
            if not can:
                break
            done |= set(can)
            resident = [b for b in resident if b not in done]
        cases.append({"blocks": n, "waits": waits}), want.append("completes" if len(done) == n else "deadlock")
    add("dispatch.progress", {"cu_capacity_blocks": room, "cases": cases}, {"outcome": want})
for _ in range(20):
    v = R.sample(range(1, 257), 10)
    total, granule, most = R.choice([(256, 4, 10), (512, 8, 8), (1024, 16, 20)])
    add("cu.occupancy", {"vgprs": v, "simd_vgprs": total, "granule": granule, "max_waves": most}, {"waves_per_simd": [min(most, total // (-(-x // granule) * granule)) for x in v]})
    sizes = R.sample(range(1, 1025), 6)
    simds, per = R.choice([(4, 10), (4, 8), (2, 10)])
    waves = [-(-x // 64) for x in sizes]
    e = [simds * per // w for w in waves]
    add("cu.occupancy", {"simds": simds, "waves_per_simd": per, "wave": 64, "block_threads": sizes, "lds": 0, "vgprs": 24}, {"blocks_by_waves": e, "threads_per_cu": simds * per * 64})

R.shuffle(out)
seen, kept = {}, []
for c in out:
    seen[c["kind"]] = seen.get(c["kind"], 0) + 1
    if seen[c["kind"]] <= int(sys.argv[2]):
        kept.append(c)
kept.sort(key=lambda c: c["kind"])
print("[" + ",\n".join(json.dumps(c) for c in kept) + "]")
