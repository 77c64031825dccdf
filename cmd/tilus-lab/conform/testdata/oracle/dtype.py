"""Cases about element types, from fractions; the types that ml_dtypes has are held against it while the file is made.

    pip install ml_dtypes==0.6.0
    python3 dtype.py SEED > dtype.json
"""
import json, math, random, sys
from fractions import Fraction
import ml_dtypes, numpy as np

R = random.Random(int(sys.argv[1]))
theirs = {(8, 4, 3): ml_dtypes.float8_e4m3fn, (8, 5, 2): ml_dtypes.float8_e5m2, (6, 2, 3): ml_dtypes.float6_e2m3fn, (6, 3, 2): ml_dtypes.float6_e3m2fn, (4, 2, 1): ml_dtypes.float4_e2m1fn}
f32 = lambda x: float(np.float32(x))
floats, ints, packing = [], [], []
for n, e in [(n, e) for n in range(3, 9) for e in range(1, n - 1)]:
    m = n - 1 - e
    bias = 2 ** (e - 1) - 1

    def value(code):
        sign, x, f = -1.0 if code >> n - 1 else 1.0, code >> m & (1 << e) - 1, code & (1 << m) - 1
        if (n, e) == (8, 4) and code & 127 == 127:
            return math.nan
        if (n, e) == (8, 5) and x == 31:
            return math.nan if f else sign * math.inf
        return sign * (math.ldexp(f, 1 - bias - m) if x == 0 else math.ldexp(f + (1 << m), x - bias - m))

    values = [value(c) for c in range(1 << n)]
    codes = sorted((Fraction(v), c) for c, v in enumerate(values[:1 << n - 1]) if math.isfinite(v))

    def encode(x):  # to the nearest, ties to even codes, saturating
        sign, a = (1 << n - 1 if math.copysign(1, x) < 0 else 0), abs(x)
        if math.isinf(a) or Fraction(a) >= codes[-1][0]:
            return sign | codes[-1][1]
        return sign | min(codes, key=lambda vc: (abs(vc[0] - Fraction(a)), vc[1] & 1))[1]

    if t := theirs.get((n, e, m)):
        for got, want in zip(np.arange(1 << n, dtype=np.uint8).view(t).astype(np.float64), values):
            assert got == want and math.copysign(1, got) == math.copysign(1, want) or math.isnan(got) and math.isnan(want)
    xs = [0.0, -0.0, math.inf, -math.inf, 1e-45, -1e-45, 3.4028234663852886e38, float(codes[-1][0]), -float(codes[-1][0]) * 1.01]
    for _ in range(12):
        k = R.randrange(len(codes) - 1)
        middle = float((codes[k][0] + codes[k + 1][0]) / 2)
        xs += [s * x for s, x in zip((1, -1, 1), (middle, float(np.nextafter(np.float32(middle), np.float32(0))), float(np.nextafter(np.float32(middle), np.float32(9e9)))))]
    xs += [f32(R.uniform(-1, 1) * 2.0 ** R.randint(-20, 18)) for _ in range(10)]
    if t:
        inside = [x for x in xs if abs(x) <= codes[-1][0]]
        assert np.array(inside, dtype=np.float32).astype(t).view(np.uint8).tolist() == [encode(x) for x in inside]
    named = lambda x: "nan" if math.isnan(x) else x if math.isfinite(x) else "inf" if x > 0 else "-inf"
    floats.append({"name": f"float{n}_e{e}m{m}", "nbits": n, "exponent_bits": e, "mantissa_bits": m, "bias": bias, "decode": [named(v) for v in values], "encode": [{"f32": named(x), "rne": encode(x)} for x in xs]})
for name, t, e, m, bias, low in (("float16", np.float16, 5, 10, 15, -26), ("bfloat16", ml_dtypes.bfloat16, 8, 7, 127, -135)):
    xs = [f32(R.uniform(-2, 2) * 2.0 ** R.randint(low, 14)) for _ in range(150)]
    floats.append({"name": name, "nbits": 16, "exponent_bits": e, "mantissa_bits": m, "bias": bias, "encode": [{"f32": x, "rne": int(c)} for x, c in zip(xs, np.array(xs, dtype=np.float32).astype(t).view(np.uint16))]})
for n in range(1, 9):
    ints.append({"name": f"int{n}b" if n < 8 else "int8", "nbits": n, "decode": [c - (1 << n) if c >> n - 1 else c for c in range(1 << n)]})
    ints.append({"name": f"uint{n}b" if n < 8 else "uint8", "nbits": n, "decode": list(range(1 << n))})
for _ in range(60):
    n = R.choice([1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16, 24, 31, 32, 33, 48, 63, 64])
    codes = [R.getrandbits(n) if n < 64 else R.getrandbits(62) for _ in range(R.choice([0, 1, 2, 3, 5, 8, 9, 13, 31]))]
    packing.append({"nbits": n, "codes": codes, "bytes": list(sum(c << i * n for i, c in enumerate(codes)).to_bytes((n * len(codes) + 7) // 8, "little"))})
rows = lambda l: "[" + ",\n".join(json.dumps(x) for x in l) + "]"
print('{"floats": ' + rows(floats) + ',\n"ints": ' + rows(ints) + ',\n"packing": ' + rows(packing) + "}")
