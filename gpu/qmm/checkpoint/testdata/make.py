#!/usr/bin/env python3
"""Makes layers as quantisers store them, and what libraries make of these: NAME.safetensors with
layers of one format in a directory of its own, and NAME.want.safetensors.gz with an F32 array [N, K]
for each layer, under the layer's name.

    pip install torch==2.15.0 numpy==2.4.6 safetensors compressed-tensors==0.20.1 transformers==5.24.0 amd-quark==0.13 nvidia-modelopt==0.47.0 hqq==0.2.8.post1 gguf==0.19.0
    pip download --no-deps --no-binary :all: autoawq==0.2.9 gptqmodel==7.7.0 compressed-tensors==0.12.2   # unpacked; only sources are read
    python3 make.py autoawq-0.2.9 gptqmodel-7.7.0 compressed_tensors-0.12.2 OUT [--seed 1] [--large]

Words of codes are random bits, so that every code is at every place. Who dequantises:
GPTQ: unpack_rows, unpack_cols and _correct_gptq_v1_qzeros of gptqmodel, taken from its source;
AWQ: unpack_awq and reverse_awq_order of autoawq, dequantize_gemm for what f16 makes of it;
compressed-tensors: its compressors, of integers and fp8 with scales as f32, also of blocks, and of MXFP4, MXFP6 and MXFP8; where weight_g_idx says
the groups of inputs, _process_quantization of 0.12.2, since 0.20 makes no such layers any more;
fp8 with weight_scale_inv: _dequantize_fp8_weight of transformers;
NVFP4: numpy here, which compressed-tensors must equal where the global scale is a power of two and be near
elsewhere; as modelopt has it, the same numbers with the reciprocal, as compressed-tensors' conversion says (modelopt is not run);
gpt-oss: convert_moe_packed_tensors of transformers;
Quark: StaticScaledRealQuantizer, whose configuration of weights is written too, and of MXFP4 and MXFP8 also modelopt's tensors;
HQQ: Quantizer of hqq with scales and zero points as f32; .gguf files: dequantize of gguf. Biases are cast by torch, and must be what they were.
"""
import argparse, ast, gzip, importlib.util, json, math, pathlib

import gguf
import numpy as np
import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme, QuantizationStrategy
from compressed_tensors.quantization.lifecycle.forward import dequantize
from compressed_tensors.quantization.utils import calculate_range
from hqq.core.quantize import BaseQuantizeConfig, HQQLinear, Quantizer
from modelopt.torch.quantization.qtensor import MXFP4QTensor, MXFP8QTensor
from quark.torch.export.nn.modules.realquantizer import StaticScaledRealQuantizer
from quark.torch.quantization.config.config import QTensorConfig
from quark.torch.quantization.config.type import Dtype, QSchemeType, RoundType, ScaleType
from quark.torch.quantization.observer.observer import PerBlockMXObserver, PerChannelMinMaxObserver, PerTensorMinMaxObserver
from safetensors.torch import save
from transformers.integrations.finegrained_fp8 import _dequantize_fp8_weight
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

args = argparse.ArgumentParser()
args.add_argument("autoawq", type=pathlib.Path)
args.add_argument("gptqmodel", type=pathlib.Path)
args.add_argument("grouped", type=pathlib.Path)
args.add_argument("out", type=pathlib.Path)
args.add_argument("--seed", type=int, default=1)
args.add_argument("--large", action="store_true", help="larger layers, which are not committed")
args = args.parse_args()
rng = np.random.default_rng(args.seed)
grow = 4 if args.large else 1


def functions(path, first, **given):
    """The functions of a source that the first ones call, without what the source imports."""
    tree = ast.parse(path.read_text())
    known = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    take, todo = [], list(first)
    while todo:
        name = todo.pop()
        if name in take or name not in known:
            continue
        take.append(name)
        todo += [n.id for n in ast.walk(known[name]) if isinstance(n, ast.Name)]
    body = ast.Module([known[n] for n in take], [])
    space = {"torch": torch, **given}
    exec(compile(ast.parse("from __future__ import annotations\n" + ast.unparse(body)), str(path), "exec"), space)
    return space


gptq = functions(args.gptqmodel / "gptqmodel/utils/model_dequant.py", ["unpack_rows", "unpack_cols", "pack_cols", "_correct_gptq_v1_qzeros"], PLANAR_BITS=(5, 6, 7))
grouped = functions(args.grouped / "src/compressed_tensors/quantization/lifecycle/forward.py", ["_process_quantization"],
                    QuantizationStrategy=QuantizationStrategy, calculate_range=calculate_range, ceil=math.ceil)
spec = importlib.util.spec_from_file_location("packing_utils", args.autoawq / "awq/utils/packing_utils.py")
awq = importlib.util.module_from_spec(spec)
spec.loader.exec_module(awq)


def words(*shape):
    return torch.from_numpy(rng.integers(-(2**31), 2**31, shape, dtype=np.int64).astype(np.int32))


def scales(*shape, dtype=torch.float16):
    """Positive scales over some binades, with all bits of their type."""
    return torch.from_numpy(np.asarray(np.exp2(rng.uniform(-12, -2, shape)))).to(dtype)


class File:
    def __init__(self, name, config=None):
        self.name, self.config, self.arrays, self.want = name, config, {}, {}

    def add(self, layer, arrays, want):
        sep = "" if next(iter(arrays)).startswith(("_", ".")) else "."
        self.arrays |= {layer + sep + k: v.clone().contiguous() for k, v in arrays.items()}
        if want is not None:
            for name, w in want.items() if isinstance(want, dict) else [(layer, want)]:
                assert w.dtype == torch.float32 and w.isfinite().all(), name
                self.want[name] = w.clone().contiguous()

    def write(self):
        d = args.out / self.name
        d.mkdir(parents=True, exist_ok=True)
        (d / f"{self.name}.safetensors").write_bytes(save(self.arrays))
        with gzip.GzipFile(d / f"{self.name}.want.safetensors.gz", "wb", 9, mtime=0) as f:
            f.write(save(self.want))
        if self.config is not None:
            name = "config.json" if "quantization_config" in self.config else "quantize_config.json"
            (d / name).write_text(json.dumps(self.config) + "\n")
        print(d, len(self.want), "layers")


def gptq_layer(f, name, n, k, group, bits, zeros, v1, g_idx=None, keep=True):
    group_of = torch.arange(k) // group if g_idx is None else g_idx
    groups = -(-k // group)
    qweight = words(k * bits // 32, n)
    z = torch.as_tensor(np.broadcast_to(zeros, (groups, n)).copy(), dtype=torch.int32)
    stored = z - 1 if v1 else z
    assert 0 <= stored.min() and stored.max() < 2**bits
    # pack_cols takes whole words; columns beyond n are 0
    whole = torch.zeros(groups, -(-n * bits // 32) * 32 // bits if bits != 3 else -(-n // 32) * 32, dtype=torch.int32)
    whole[:, :n] = stored
    qzeros = gptq["pack_cols"](whole, bits, pack_dtype=torch.int32)
    s = scales(groups, n)
    s[0, 0] = 6.1e-5 / 3  # less than normal
    code = gptq["unpack_rows"](qweight, bits)
    read = gptq["unpack_cols"](gptq["_correct_gptq_v1_qzeros"](qzeros, bits) if v1 else qzeros, bits)[:, :n]
    assert (read == z).all()
    want = ((code[:k].float() - read.float()[group_of]) * s.float()[group_of]).t()
    arrays = {"qweight": qweight, "qzeros": qzeros, "scales": s}
    if keep:
        arrays["g_idx"] = group_of.to(torch.int32)
    f.add(name, arrays, want)


for version, v1 in (("gptq", True), ("gptq_v2", False)):
    f = File(version, {"bits": 4, "quant_method": "gptq", "checkpoint_format": version})
    for bits in (2, 3, 4, 8):
        n, k = (32 if bits == 3 else 8) * grow, 64 * grow
        least, most = (1, 2**bits) if v1 else (0, 2**bits)
        z = rng.integers(least, most, (2 * grow, n))
        z[0, :2] = least, most - 1
        gptq_layer(f, f"u{bits}", n, k, 32, bits, z, v1)
    gptq_layer(f, "channel", 8 * grow, 72 * grow, 72 * grow, 4, rng.integers(1, 16, (1, 8 * grow)), v1)
    gptq_layer(f, "ragged", 8 * grow, 80, 32, 4, rng.integers(1, 16, (3, 8 * grow)), v1)
    gptq_layer(f, "narrow", 9, 64, 32, 4, rng.integers(1, 16, (2, 9)), v1)
    gptq_layer(f, "symmetric", 8, 64, 32, 4, 8, v1)
    gptq_layer(f, "symmetric8", 16, 64, 32, 8, 128, v1, keep=False)
    gptq_layer(f, "actorder", 8, 64, 32, 4, 8, v1, g_idx=torch.from_numpy(rng.permutation(64) // 32))
    f.write()

f = File("awq", {"bits": 4, "quant_method": "awq", "version": "gemm"})
for name, n, k, group in (("group32", 16 * grow, 64 * grow, 32), ("group128", 8, 256 * grow, 128), ("channel", 8, 72, 72), ("symmetric", 8, 64, 32)):
    qweight, qzeros, s = words(k, n // 8), words(k // group, n // 8), scales(k // group, n)
    if name == "symmetric":
        qzeros[:] = -0x77777778
    code, zero = awq.reverse_awq_order(*awq.unpack_awq(qweight, qzeros, 4), 4)
    code, zero = code & 15, zero & 15
    want = ((code.float() - zero.float().repeat_interleave(group, 0)) * s.float().repeat_interleave(group, 0)).t()
    assert (awq.dequantize_gemm(qweight, qzeros, s, 4, group).t() == want.half()).all()
    f.add(name, {"qweight": qweight, "qzeros": qzeros, "scales": s}, want)
f.write()


def decompress(format, arrays, **weights):
    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**weights))
    return BaseCompressor.get_value_from_registry(format).decompress(dict(arrays), scheme)["weight"]

f = File("pack_quantized")
for name, n, k, group, bits, symmetric, dtype in (
    ("i4", 8, 96 * grow, 32, 4, True, torch.bfloat16), ("i8", 5, 64, 32, 8, True, torch.float16), ("i2", 8, 64, 32, 2, True, torch.float16),
    ("u4", 12, 64 * grow, 32, 4, False, torch.bfloat16), ("u8", 10, 64, 32, 8, False, torch.float16), ("channel", 10, 100, 0, 4, True, torch.bfloat16),
    ("channel_zero", 9, 100, 0, 4, False, torch.float16), ("tensor", 8, 64, -1, 8, True, torch.float16), ("f32", 8, 64, 32, 4, True, torch.float32),
):
    code = torch.from_numpy(rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), (n, k)).astype(np.int8))
    groups = k // group if group > 0 else 1
    s = scales(*((n, groups) if group >= 0 else (1,)), dtype=dtype)
    if name == "f32":
        s = s.bfloat16().float()  # of f32 are those taken that a smaller type holds
    arrays = {"weight_packed": pack_to_int32(code, bits), "weight_scale": s, "weight_shape": torch.tensor([n, k])}
    weights = dict(num_bits=bits, type="int", symmetric=symmetric, strategy={0: "channel", -1: "tensor"}.get(group, "group"))
    if group > 0:
        weights["group_size"] = group
    zero = torch.zeros(n, groups)
    if not symmetric:
        zero = torch.from_numpy(rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), (n, groups)).astype(np.int8))
        zero[0, 0], zero[-1, 0] = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        arrays["weight_zero_point"] = pack_to_int32(zero, bits, packed_dim=0)
    wide = arrays | {"weight_scale": s.float()}
    want = decompress("pack-quantized", wide, **weights)
    if dtype == torch.float16:  # what rounds once
        assert (decompress("pack-quantized", arrays, **weights) == want.half()).all() or not symmetric
    f.add(name, arrays, want)
f.write()

f = File("fp8")
for name, n, k, shape, dtype in (("channel", 12, 80 * grow, (12, 1), torch.bfloat16), ("vector", 8, 64, (8,), torch.float16),
                                 ("tensor", 8, 64, (1,), torch.float32), ("scalar", 8, 64, (), torch.float32), ("tensor16", 8, 64, (1,), torch.bfloat16)):
    code = rng.integers(0, 256, (n, k)).astype(np.uint8)
    code[(code & 127) == 127] = 0x7E
    weight = torch.from_numpy(code).view(torch.float8_e4m3fn)
    s = scales(*shape, dtype=dtype)
    want = decompress("float-quantized", {"weight": weight, "weight_scale": (s[:, None] if name == "vector" else s).float()}, num_bits=8, type="float",
                      strategy="channel" if name in ("channel", "vector") else "tensor")
    f.add(name, {"weight": weight, "weight_scale": s, "input_scale": torch.tensor(0.5)}, want)
f.write()


def f8(*shape):
    code = rng.integers(0, 127, shape).astype(np.uint8)
    return torch.from_numpy(code).view(torch.float8_e4m3fn)


def e2m1(packed):
    table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    b = packed.numpy()
    return table[np.stack([b & 15, b >> 4], -1)].reshape(b.shape[0], -1)


def octets(*shape):
    return torch.from_numpy(rng.integers(0, 256, shape).astype(np.uint8))

f = File("nvfp4")
for name, n, k, factor in (("power", 8, 48 * grow, 2.0**11), ("odd", 12, 80 * grow, 2688 / 0.7312)):
    packed, s, g = octets(n, k // 2), f8(n, k // 16), torch.tensor([factor], dtype=torch.float32)
    weights = dict(num_bits=4, type="float", strategy="tensor_group", group_size=16, symmetric=True)
    # The factor is 1/g as f32, as which vLLM's kernels take it; compressed-tensors divides each scale by g instead.
    one = float(np.float32(1) / g.numpy()[0])
    want = torch.from_numpy((e2m1(packed) * np.repeat(s.float().numpy().astype(np.float64), 16, 1) * one).astype(np.float32))
    theirs = dequantize(unpack_fp4_from_uint8(packed, n, k).float(), s.float(), args=QuantizationArgs(**weights), global_scale=g, dtype=torch.float32)
    off = ((theirs - want).abs() / want.abs().clamp(min=1e-30)).max()
    assert off <= (0 if name == "power" else 2**-22), off
    assert (decompress("nvfp4-pack-quantized", {"weight_packed": packed, "weight_scale": s, "weight_global_scale": g}, **weights) == theirs.bfloat16()).all() or name == "odd"
    f.add(name, {"weight_packed": packed, "weight_scale": s, "weight_global_scale": g, "input_global_scale": g}, want)
    # As modelopt has it, where weight_scale_2 is the factor itself.
    two = torch.tensor(one, dtype=torch.float32)
    f.add("modelopt_" + name, {"weight": packed, "weight_scale": s, "weight_scale_2": two, "input_scale": two}, want)
f.write()

f = File("mxfp4")
packed, s = octets(8, 48), octets(8, 3) // 2 + 64
s[0, :2] = torch.tensor([3, 250], dtype=torch.uint8)
f.add("compressed", {"weight_packed": packed, "weight_scale": s},
      decompress("mxfp4-pack-quantized", {"weight_packed": packed, "weight_scale": s}, num_bits=4, type="float", strategy="group", group_size=32, symmetric=True).float())
blocks, s = octets(3, 8, 2, 16), octets(3, 8, 2) % 16 + 110
w = convert_moe_packed_tensors(blocks, s, dtype=torch.float32).transpose(1, 2)  # there [E, K, N]
assert w.shape == (3, 8, 64)
f.add("experts.gate_up_proj", {"_blocks": blocks, "_scales": s}, {f"experts.gate_up_proj[{i}]": w[i] for i in range(3)})
f.add("block.0.mlp.mlp2_weight", {".blocks": blocks[:1], ".scales": s[:1]}, {"block.0.mlp.mlp2_weight[0]": w[0]})
f.write()

# Codes of integers one a byte, as W8A8 has them; what it says of activations is of no weight.
f = File("int_quantized")
for name, n, k, group, symmetric, dtype in (
    ("channel", 12, 80 * grow, 0, True, torch.bfloat16), ("group", 8, 96 * grow, 32, True, torch.float16), ("tensor", 8, 64, -1, True, torch.float16),
    ("zero", 10, 72, 0, False, torch.float16), ("group_zero", 8, 64, 32, False, torch.bfloat16), ("f32", 8, 64, 0, True, torch.float32),
):
    code = torch.from_numpy(rng.integers(-128, 128, (n, k)).astype(np.int8))
    code[0, :2] = torch.tensor([-128, 127])
    groups = k // group if group > 0 else 1
    s = scales(*((n, groups) if group >= 0 else (1,)), dtype=dtype)
    if name == "f32":
        s = s.bfloat16().float()
    arrays = {"weight": code, "weight_scale": s}
    weights = dict(num_bits=8, type="int", symmetric=symmetric, strategy={0: "channel", -1: "tensor"}.get(group, "group"))
    if group > 0:
        weights["group_size"] = group
    if not symmetric:
        zero = torch.from_numpy(rng.integers(-128, 128, (n, groups)).astype(np.int8))
        zero[0, 0], zero[-1, 0] = -128, 127
        arrays["weight_zero_point"] = zero
    want = decompress("int-quantized", arrays | {"weight_scale": s.float()}, **weights)
    f.add(name, arrays | {"input_scale": torch.tensor([0.5]), "input_zero_point": torch.zeros(1, dtype=torch.int8)}, want)
f.write()

# Blocks at the ends of outputs and inputs are smaller.
f = File("fp8_block")
for name, n, k, member, block, dtype in (
    ("qwen", 130, 132, "weight_scale_inv", 128, torch.bfloat16), ("deepseek", 8, 272, "weight_scale_inv", 128, torch.float32), ("e8m0", 8, 144, "weight_scale_inv", 128, torch.float8_e8m0fnu),
    ("compressed", 132, 20, "weight_scale", 128, torch.bfloat16), ("small", 40, 96, "weight_scale", 32, torch.float16), ("one", 8, 64, "weight_scale_inv", 128, torch.float32),
    ("unheld", 8, 256, "weight_scale_inv", 128, torch.float32),
):
    code = rng.integers(0, 256, (n, k)).astype(np.uint8)
    code[(code & 127) == 127] = 0x7E
    weight = torch.from_numpy(code).view(torch.float8_e4m3fn)
    s = scales(-(-n // block), -(-k // block))
    s = torch.exp2(torch.log2(s.float()).round()).to(dtype) if name in ("deepseek", "e8m0") else s.float() * 1.0001 if name == "unheld" else s.to(dtype)
    if member == "weight_scale":
        want = decompress("float-quantized", {"weight": weight, "weight_scale": s.float()}, num_bits=8, type="float", strategy="block", block_structure=[block, block])
    else:
        want = _dequantize_fp8_weight(weight, s, [block, block], torch.float32)
    f.add(name, {"weight": weight, member: s}, None if name == "unheld" else want)
f.write()

# Biases as formats have them; of those that a layer is read with, the type of its x and y is torch's too.
f = File("bias", {"bits": 4, "quant_method": "gptq", "checkpoint_format": "gptq"})
for name, dtype, act in (("half", torch.float16, torch.float16), ("wide", torch.float32, torch.float16), ("brain", torch.bfloat16, torch.float16), ("zero", torch.float16, None), ("unheld", torch.float32, None)):
    gptq_layer(f, name, 8, 64, 32, 4, 8, True)
    b = torch.from_numpy(rng.normal(size=8)).to(torch.float16 if name == "wide" else dtype).to(dtype)
    if name == "zero":
        b[:] = torch.tensor([0.0, -0.0] * 4)
    f.arrays[name + ".bias"] = b
    if act is not None:
        assert (b.to(act).double() == b.double()).all()
        f.want[name + ".bias"] = b.float()
blocks, s = octets(2, 8, 2, 16), octets(2, 8, 2) % 16 + 110
w = convert_moe_packed_tensors(blocks, s, dtype=torch.float32).transpose(1, 2)
b = torch.from_numpy(rng.normal(size=(2, 8)) * 1e-6).bfloat16()  # less than f16 has bits for
for layer, sep, bias in (("experts.gate_up_proj", "_", "experts.gate_up_proj_bias"), ("block.0.mlp.mlp1_weight", ".", "block.0.mlp.mlp1_bias")):
    f.add(layer, {sep + "blocks": blocks, sep + "scales": s}, {f"{layer}[{i}]": w[i] for i in range(2)})
    f.arrays[bias] = b.clone()
    f.want |= {f"{layer}[{i}].bias": b[i].float() for i in range(2)}
f.write()

# Groups whose inputs are no neighbours.
f = File("actorder", {"bits": 4, "quant_method": "gptq", "checkpoint_format": "gptq"})
for name, n, k, bits in (("ragged", 8, 80, 4), ("three", 32, 64, 3), ("eight", 8, 96 * grow, 8)):
    groups = -(-k // 32)
    gptq_layer(f, name, n, k, 32, bits, rng.integers(1, 2**bits, (groups, n)), True, g_idx=torch.from_numpy(rng.permutation(k) // 32))
for name, n, k, bits, symmetric, dtype in (("packed", 12, 96 * grow, 4, True, torch.bfloat16), ("packed_zero", 9, 64, 8, False, torch.float16)):
    code = torch.from_numpy(rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), (n, k)).astype(np.int8))
    g_idx = torch.from_numpy((rng.permutation(k) // 32).astype(np.int32))
    s, zero = scales(n, k // 32, dtype=dtype), torch.zeros(n, k // 32, dtype=torch.int8)
    arrays = {"weight_packed": pack_to_int32(code, bits), "weight_scale": s, "weight_shape": torch.tensor([n, k]), "weight_g_idx": g_idx}
    if not symmetric:
        zero = torch.from_numpy(rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), (n, k // 32)).astype(np.int8))
        arrays["weight_zero_point"] = pack_to_int32(zero, bits, packed_dim=0)
    weights = QuantizationArgs(num_bits=bits, type="int", symmetric=symmetric, strategy="group", group_size=32)
    f.add(name, arrays, grouped["_process_quantization"](code, s.float(), zero, weights, g_idx=g_idx, dtype=torch.float32, do_quantize=False))
f.write()


def exponents(*shape):
    """Powers of two over some binades, of which one is near the least and one near the greatest."""
    s = torch.from_numpy(rng.integers(100, 140, shape).astype(np.uint8))
    s.view(-1)[:2] = torch.tensor([3, 240], dtype=torch.uint8)
    return s


mx = dict(type="float", strategy="group", group_size=32, symmetric=True)
f = File("mxfp8")
code = rng.integers(0, 256, (8, 96 * grow)).astype(np.uint8)
code[(code & 127) == 127] = 0x7E
weight, s = torch.from_numpy(code).view(torch.float8_e4m3fn), exponents(8, 3 * grow)
want = decompress("mxfp8-quantized", {"weight": weight, "weight_scale": s}, num_bits=8, **mx).float()
assert (MXFP8QTensor(weight.shape, torch.float32, weight).dequantize(scale=s) == want).all()
f.add("compressed", {"weight": weight, "weight_scale": s}, want)
f.add("typed", {"weight": weight, "weight_scale": s.view(torch.float8_e8m0fnu)}, want)
f.write()

f = File("mxfp6")
packed, s = octets(8, 72 * grow), exponents(8, 3 * grow)
f.add("compressed", {"weight_packed": packed, "weight_scale": s}, decompress("mxfp6-pack-quantized", {"weight_packed": packed, "weight_scale": s}, num_bits=6, **mx).float())
f.write()


def quark(dtype, scheme, observer, **of):
    return QTensorConfig(dtype=Dtype.from_str(dtype), qscheme=scheme, is_dynamic=False, observer_cls=observer, symmetric=None, round_method=RoundType.half_even, scale_type=ScaleType.float, **of)


def unquark(config, weight, scale):
    q = StaticScaledRealQuantizer(config, None, True, True, torch.float32, torch.device("cpu"), scale_shape=tuple(scale.shape))
    q.scale = scale
    return q(weight)


for six in ("fp6_e2m3", "fp6_e3m2"):
    of = dict(scheme=QSchemeType.per_group, observer=PerBlockMXObserver, group_size=32, ch_axis=-1, scale_format="e8m0")
    four, six_bits = quark("fp4", **of), quark(six, **of)
    layer = lambda c: {"weight": c.to_dict(), "bias": None, "input_tensors": None, "output_tensors": None}
    f = File("quark_" + six[4:], {"quantization_config": {"quant_method": "quark", "global_quant_config": layer(four), "layer_quant_config": {"six": layer(six_bits)}}})
    packed, s = octets(8, 48 * grow), exponents(8, 2 * grow)
    f.add("six", {"weight": packed, "weight_scale": s}, unquark(six_bits, packed, s))
    if six == "fp6_e2m3":
        packed, s = octets(12, 32 * grow), exponents(12, 2 * grow)
        want = unquark(four, packed, s)
        two = MXFP4QTensor(torch.Size([12, 64 * grow]), torch.float32, packed).dequantize(scale=s, block_sizes={-1: 32})
        assert (two == want).all()
        f.add("four", {"weight": packed, "weight_scale": s}, want)
    else:
        code = rng.integers(0, 256, (8, 64)).astype(np.uint8)
        code[(code & 127) > 0x7B] = 0x7B  # from there on no numbers
        weight = torch.from_numpy(code).view(torch.float8_e5m2)
        s = scales(8, dtype=torch.bfloat16)
        f.add("channel", {"weight": weight, "weight_scale": s}, unquark(quark("fp8_e5m2", QSchemeType.per_channel, PerChannelMinMaxObserver, ch_axis=0), weight, s.float()))
        s = torch.tensor(0.0123)
        f.add("tensor", {"weight": weight, "weight_scale": s}, unquark(quark("fp8_e5m2", QSchemeType.per_tensor, PerTensorMinMaxObserver), weight, s))
    f.write()

f = File("fp8_group")
for name, n, k, group, dtype in (("bf16", 8, 96 * grow, 32, torch.bfloat16), ("f32", 12, 256, 128, torch.float32)):
    code = rng.integers(0, 256, (n, k)).astype(np.uint8)
    code[(code & 127) == 127] = 0x7E
    weight, s = torch.from_numpy(code).view(torch.float8_e4m3fn), scales(n, k // group, dtype=torch.bfloat16).to(dtype)
    want = decompress("float-quantized", {"weight": weight, "weight_scale": s.float()}, num_bits=8, type="float", strategy="group", group_size=group)
    f.add(name, {"weight": weight, "weight_scale": s}, want)
f.write()

# Of each a layer that the library has made, whose codes are then others.
f = File("hqq")
for name, n, k, group, bits, dtype, bias in (("b8", 8, 64, 32, 8, torch.float16, False), ("b4", 8, 128 * grow, 64, 4, torch.float16, True), ("b3", 12, 64, 32, 3, torch.bfloat16, False),
                                             ("b2", 8, 96 * grow, 16, 2, torch.bfloat16, False), ("b1", 8, 64, 32, 1, torch.float16, False), ("channel", 10, 128, 128, 4, torch.float16, False)):
    linear = torch.nn.Linear(k, n, bias=bias)
    linear.weight.data = torch.from_numpy(rng.normal(size=(n, k))).float()
    if bias:
        linear.bias.data = torch.from_numpy(rng.normal(size=n)).half().float()
    params = BaseQuantizeConfig(nbits=bits, group_size=group, axis=1) | {"offload_meta": False}
    params["weight_quant_params"]["optimize"] = False
    params["weight_quant_params"]["round_zero"] = name == "channel"
    h = HQQLinear(linear, params, del_orig=False, device="cpu", compute_dtype=dtype)
    h.W_q.data = words(*h.W_q.shape) if bits == 3 else octets(*h.W_q.shape)
    meta = h.meta | {"compute_dtype": torch.float32, "scale": h.meta["scale"].float(), "zero": h.meta["zero"].float()}
    want = Quantizer.dequantize(h.W_q.data, meta)
    assert (h.dequantize() - want).abs().max() <= want.abs().max() * 2.0**-7  # which rounds twice
    f.add(name, {key: v.data for key, v in h.state_dict().items()}, {name: want} | ({name + ".bias": linear.bias.data} if bias else {}))
f.write()

# A file as llama.cpp has it, with a vocabulary in front of its arrays.
name = "gguf"
(args.out / name).mkdir(parents=True, exist_ok=True)
w = gguf.GGUFWriter(args.out / name / "gguf.gguf", "llama")
w.add_token_list(["<s>", "a", "längeres"])
w.add_token_scores([0.0, -1.5, 2.0])
w.add_quantization_version(2)
f = File(name)
Q = gguf.GGMLQuantizationType
for layer, n, k, t in (("q4_0", 8, 96 * grow, Q.Q4_0), ("q5_0", 12, 64 * grow, Q.Q5_0), ("q8_0", 5, 64, Q.Q8_0), ("tq2_0", 8, 512, Q.TQ2_0), ("mxfp4", 8, 64 * grow, Q.MXFP4), ("one", 8, 32, Q.Q4_0),
                       ("q4_k", 8, 256, Q.Q4_K), ("q6_k", 8, 256, Q.Q6_K), ("q4_1", 8, 64, Q.Q4_1), ("exps", 4, 64, Q.MXFP4)):
    block, size = gguf.GGML_QUANT_SIZES[t]
    shape = (3, n, k) if layer == "exps" else (n, k)
    blocks = rng.integers(0, 256, (*shape[:-1], k // block, size)).astype(np.uint8)
    if t == Q.MXFP4:
        blocks[..., 0] = blocks[..., 0] % 64 + 100
        blocks[..., 0, 0, 0] = 0
    else:
        at = 64 if t == Q.TQ2_0 else 0
        blocks[..., at : at + 2] = scales(*blocks.shape[:-1]).numpy()[..., None].view(np.uint8)
    data = blocks.reshape(*shape[:-1], -1)
    w.add_tensor(layer + ".weight", data, raw_dtype=t)
    if layer in ("q4_k", "q6_k", "q4_1"):
        continue
    want = torch.from_numpy(gguf.quants.dequantize(data, t))
    f.want |= {f"{layer}[{i}]": want[i].contiguous() for i in range(3)} if layer == "exps" else {layer: want}
b = rng.normal(size=12).astype(np.float16)
w.add_tensor("q5_0.bias", b.astype(np.float32))
f.want["q5_0.bias"] = torch.from_numpy(b).float()
w.add_tensor("norm.weight", np.ones(8, dtype=np.float32))
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()
f.write()
(args.out / name / "gguf.safetensors").unlink()
