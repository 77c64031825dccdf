"""Shared-memory atoms as CuTe's C++ headers print them, as cases of kind smem_atom.

    pip download --no-deps nvidia-cutlass==4.2.0.0 nvidia-cuda-cccl-cu12 nvidia-cuda-runtime-cu12 nvidia-cuda-nvcc-cu12, unzip each
    python3 cute_shared.py cutlass_library/source/include nvidia/*/include > cute_shared.json

No GPU is wanted: the headers compile with g++ alone.
"""
import json, os, subprocess, sys, tempfile

types = {"b1": "uint1b_t", "u2": "uint2_t", "u4": "uint4_t", "e2m1": "float_e2m1_t", "u8": "uint8_t", "e4m3": "float_e4m3_t",
         "f16": "half_t", "bf16": "bfloat16_t", "f32": "float", "tf32": "tfloat32_t", "f64": "double", "u128": "uint128_t"}
atoms = [(f"GMMA::Layout_{major}_{width}_Atom<%s>", t) for t in types for major in ("K", "MN") for width in ("INTER", "SW32", "SW64", "SW128")]
atoms += [("UMMA::Layout_MN_SW128_32B_Atom<%s>", t) for t in types if t != "u128"]
lines = "".join(f"  say({name % types[t]}{{}});\n" for name, t in atoms)
source = ("#include <cute/tensor.hpp>\n#include <cute/atom/mma_atom.hpp>\nusing namespace cute;\n"
          'template<class L> void say(L l) { print(l); printf("\\n"); print(as_position_independent_swizzle_layout(l)); printf("\\n"); }\n'
          "int main() {\n" + lines + "}\n")
with tempfile.TemporaryDirectory() as d:
    with open(d + "/a.cpp", "w") as f:
        f.write(source)
    subprocess.run(["g++", "-std=c++17", "-w", *(x for i in sys.argv[1:] for x in ("-isystem", os.path.abspath(i))), "a.cpp", "-o", "a"], cwd=d, check=True)
    out = subprocess.run([d + "/a"], capture_output=True, text=True, check=True).stdout.replace("_", "").splitlines()
cases = []
for i, (name, t) in enumerate(atoms):
    for k in (0, 1):
        cases.append(json.dumps({"input": {"op": "smem_atom", "expr": name % t, "position_independent": bool(k)}, "expect": {"print": out[2 * i + k]}}))
print("[" + ",\n".join(cases) + "]")
