"""Cases about dense matrix instructions of AMD, from how its ISA documents put matrices into registers.

    python3 amd.py SEED MOST > amd.json    so many cases of each instruction and query

M × K of A are given to lanes from row to row, then in runs of k; blocks lie one after the other. RDNA gives a lane the
column of B and D that its number says, both halves of a wave the same on RDNA3, runs of eight bytes in turn on RDNA4.
"""
import json, random, re, sys

R = random.Random(int(sys.argv[1]))
types = {"f32": 32, "xf32": 32, "f16": 16, "bf16": 16, "bf16_1k": 16, "i8": 8, "iu8": 8, "iu4": 4, "f64": 64, "fp8_fp8": 8, "fp8_bf8": 8, "bf8_fp8": 8, "bf8_bf8": 8, "i32": 32}
names = {"CDNA1": "f32_32x32x1f32 f32_16x16x1f32 f32_4x4x1f32 f32_32x32x2f32 f32_16x16x4f32 f32_32x32x4f16 f32_16x16x4f16 f32_4x4x4f16 f32_32x32x8f16 f32_16x16x16f16 i32_32x32x4i8 i32_16x16x4i8 i32_4x4x4i8 i32_32x32x8i8 i32_16x16x16i8 f32_32x32x2bf16 f32_16x16x2bf16 f32_4x4x2bf16 f32_32x32x4bf16 f32_16x16x8bf16",
         "CDNA2": "f32_32x32x4bf16_1k f32_16x16x4bf16_1k f32_4x4x4bf16_1k f32_32x32x8bf16_1k f32_16x16x16bf16_1k f64_16x16x4f64 f64_4x4x4f64",
         "CDNA3": "f32_32x32x1_2b_f32 f32_16x16x1_4b_f32 f32_4x4x1_16b_f32 f32_32x32x2_f32 f32_32x32x8_f16 f32_16x16x16_bf16 i32_32x32x16_i8 i32_16x16x32_i8 f32_16x16x8_xf32 f32_32x32x4_xf32 f32_16x16x32_fp8_fp8 f32_32x32x16_bf8_fp8 f64_16x16x4_f64",
         "RDNA3": "f32_16x16x16_f16 f32_16x16x16_bf16 i32_16x16x16_iu8 i32_16x16x16_iu4", "RDNA4": "f32_16x16x16_f16 f32_16x16x16_bf16 i32_16x16x16_iu8 f32_16x16x16_fp8_bf8 f32_16x16x16_bf8_bf8 i32_16x16x32_iu4"}
one = {("f32", 32): 2, ("f32", 16): 4, ("f16", 32): 8, ("f16", 16): 16, ("bf16", 32): 4, ("bf16", 16): 8, ("bf16_1k", 32): 8, ("bf16_1k", 16): 16, ("i8", 32): 8, ("i8", 16): 16}  # k of one block
cases = []


def place(e, width, lane):
    if width == 64:
        return f"v[{2 * e + 1}:{2 * e}]{{{lane}}}", {"reg": 2 * e, "nregs": 2, "lane": lane, "bits": None}
    per = 32 // width
    low = e % per * width
    bits = None if per == 1 else [low, low + width - 1]
    return f"v{e // per}{{{lane}}}" + ("" if per == 1 else f".[{bits[1]}:{bits[0]}]"), {"reg": e // per, "nregs": 1, "lane": lane, "bits": bits}


for arch, list_ in names.items():
    for short in list_.split():
        name = ("v_wmma_" if arch[0] == "R" else "v_mfma_") + short
        d, m, n, k, blocks, src = re.fullmatch(r"([a-z0-9]+)_(\d+)x(\d+)x(\d+)_?(?:(\d+)b_)?([a-z].*)", short).groups()
        m, n, k, width, wide = int(m), int(n), int(k), types[src], types[d]
        if blocks is None and arch[0] == "C":
            blocks = {4: 4 if src == "f64" else 16}.get(m) or (1 if k >= one.get((src, m), 0) else 64 // m if m == 16 else 2)
        blocks = int(blocks or 1)
        for wave in [64] if arch[0] == "C" else [32, 64]:
            def ab(i, kk, b):
                if arch[0] == "C":
                    run = max(1, m * k * blocks // 64)
                    return [(kk % run, i + m * (b + blocks * (kk // run)))]
                if arch == "RDNA3":
                    return [(kk, i + 16 * g) for g in range(wave // 16)]
                group = 64 // width if wave == 32 and src != "iu4" else k // (wave // 16)
                g = kk // group
                return [(g // (wave // 16) * group + kk % group, i + 16 * (g % (wave // 16)))]

            def cd(i, j, b):
                if arch == "RDNA3":
                    return i // (wave // 16), i % (wave // 16) * 16 + j
                if arch == "RDNA4":
                    return (i % 8, i // 8 * 16 + j) if wave == 32 else (i % 4, i // 8 * 16 + i // 4 % 2 * 32 + j)
                if wide == 64:
                    return (i // 4, 16 * (i % 4) + j) if m == 16 else (0, j + 4 * b + 16 * i)
                if m == 32:
                    return 16 * b + 4 * (i // 8) + i % 4, 32 * (i // 4 % 2) + j
                return (4 * b + i % 4, 16 * (i // 4) + j) if m == 16 else (i, 4 * b + j)

            for matrix in "ABCD":
                held = {}
                rows, cols = {"A": (m, k), "B": (k, n)}.get(matrix, (m, n))
                w = width if matrix in "AB" else wide
                if arch == "RDNA4" and wave == 64 and matrix in "AB":
                    continue  # the documents show it for 16 bits alone
                every = []
                for b in range(blocks):
                    for r in range(rows):
                        for c in range(cols):
                            at = ab(r, c, b) if matrix == "A" else ab(c, r, b) if matrix == "B" else [cd(r, c, b)]
                            ps = [place(e, w, lane) for e, lane in at]
                            every.append((r, c, b, ps))
                            for text, p in ps:
                                held.setdefault((p["reg"], p["lane"]), []).append((p["bits"] or [0])[0:1] + [f"{text} = {matrix}[{r}][{c}]" + (f".B{b}" if blocks > 1 else "")])
                input = {"arch": arch, "instruction": name, "matrix": matrix, "wave": wave}
                for r, c, b, ps in R.sample(every, int(sys.argv[2])):
                    ask = {"A": {"i": r, "k": c}, "B": {"j": c, "k": r}}.get(matrix, {"i": r, "j": c}) | ({"block": b} if blocks > 1 else {})
                    cases.append({"input": {**input, "query": "get-register", **ask}, "expect": {"text": [t for t, _ in ps], "locations": [p for _, p in ps]}})
                for reg, lane in R.sample(sorted(held), min(len(held), int(sys.argv[2]))):
                    cases.append({"input": {**input, "query": "matrix-entry", "reg": reg, "lane": lane}, "expect": {"text": [t for _, t in sorted(held[reg, lane])]}})
print("[" + ",\n".join(json.dumps(c) for c in cases) + "]")
