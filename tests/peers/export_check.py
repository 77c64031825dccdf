"""Runs modules that `tilus-lab export --qmm` wrote, against torch.

    tilus-lab export --qmm i4 --size 8192x8192 --rows 1 -o build
    python3 tests/peers/export_check.py build i4 8192 8192 1

Packs random codes with the exported pack module, multiplies with the exported decode
module, called as a function and as torch.ops.tilus_lab.…, and holds y to what torch
makes of the plain weights in float64. Needs torch and a GPU; no Go.
"""

import importlib
import sys

import torch

folder, weight, n, k, m = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
sys.path.insert(0, folder)
pack, decode = (importlib.import_module(f"{name}_{weight}_f16") for name in ("pack", "decode"))
bits, group = int(weight[1:]), 128
torch.manual_seed(1)
codes = torch.randint(0, 1 << bits, (n, k), dtype=torch.int64, device="cuda")
values = codes.double()
if weight[0] == "i":
    values = torch.where(codes >= 1 << bits - 1, values - (1 << bits), values)
if 8 % bits:
    sys.exit(f"{weight}: this script packs types of 1, 2, 4 and 8 bits")
q = torch.zeros(n * k * bits // 8, dtype=torch.uint8, device="cuda")
for i in range(8 // bits):
    q |= (codes.flatten()[i :: 8 // bits] << i * bits).to(torch.uint8)

# The tensors' sizes follow from the programs: tiles of 16 outputs and 128 k, 8 in a block.
words = {name: kind for name, kind, _ in decode.PARAMS}
padded = int(sys.argv[6]) if len(sys.argv) > 6 else -(-n // 128) * 128
tile = padded // 16
w = torch.zeros(padded * k * bits // 8, dtype=torch.uint8, device="cuda")
pack.launch(q, w, n, k)
scales = (torch.rand(k // group, n, device="cuda") / 64 + 1 / 128).half()
order = torch.arange(n, device="cuda")
rest = order % 16
order = order - rest + rest % 8 * 2 + rest // 8  # of one tile a warp
s = torch.zeros(k // group, padded, dtype=torch.float16, device="cuda")
s[:, order] = scales
x = torch.randn(m, k, device="cuda").half()
y = torch.full((m, n), float("nan"), dtype=torch.float16, device="cuda")
extra = []
if "part" in words:
    blocks = decode.grid(m, n, k)
    extra = [torch.empty(blocks[0] * m * padded * 2, device="cuda"), torch.zeros(blocks[1] * blocks[2], dtype=torch.int32, device="cuda")]
want = x.double() @ (values * scales.double().repeat_interleave(group, 0).T).T
operator = getattr(torch.ops.tilus_lab, f"decode_{weight}_f16")
for name, run in (("function", decode.launch), ("operator", operator)):
    y.fill_(float("nan"))
    run(w, s, x, y, *extra, m, n, k)
    error = ((y.double() - want).norm() / want.norm()).item()
    print(f"decode_{weight}_f16 [{m}, {n}, {k}] as {name}: relative error {error:.2e} against torch in float64")
    assert error < 5e-4
