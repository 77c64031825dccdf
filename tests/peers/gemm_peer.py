"""Times f16 matrix products beside each other on one GPU: ours, cuBLAS and Triton.

    python3 tests/peers/gemm_peer.py KERNELS.json -o gemm.json

KERNELS.json lists our kernels as the Go test TestGPULadder of gpu/gemm/template
writes them with -export:

    [{"name": …, "ptx": file beside this one, "entry": …, "threads": …,
      "shared": bytes, "grid": [x, y, z], "m": …, "n": …, "k": …,
      "params": ["a", "b", "c", "M", "N", "K", …]}, …]

Peers: cuBLAS (torch.matmul, which takes wgmma on Hopper) and Triton compiled for
sm_80, whose dot is mma.sync, as ours. The PTX of both is translated for the GPU at
hand by the driver; that no wgmma is in it is checked. All kernels take turns round
by round, each round is one CUDA graph of several launches, and results are held to
cuBLAS's before anything is timed. Needs torch, triton and a GPU; no Go.
"""

import argparse
import ctypes
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

LAUNCHES = 8  # per graph
driver = ctypes.CDLL("libcuda.so.1")


def check(code, what):
    if code:
        name = ctypes.c_char_p()
        driver.cuGetErrorName(code, ctypes.byref(name))
        raise RuntimeError(f"{what}: {name.value.decode() if name.value else code}")


class Kernel:
    """One function of a PTX text or of machine code, with its launch."""

    def __init__(self, image, entry, grid, threads, shared):
        self.grid, self.threads, self.shared = grid, threads, shared
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        check(driver.cuModuleLoadData(ctypes.byref(module), image), entry)
        check(driver.cuModuleGetFunction(ctypes.byref(self.function), module, entry.encode()), entry)
        if shared > 48 << 10:
            check(driver.cuFuncSetAttribute(self.function, 8, shared), "shared memory")
        self.registers, self.local = self.attribute(4), self.attribute(3)
        blocks = ctypes.c_int()
        check(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(ctypes.byref(blocks), self.function, threads, ctypes.c_size_t(shared)), "occupancy")
        self.per_sm = blocks.value

    def attribute(self, which):
        n = ctypes.c_int()
        check(driver.cuFuncGetAttribute(ctypes.byref(n), which, self.function), "attribute")
        return n.value

    def launch(self, args):
        held = [ctypes.c_void_p(a.data_ptr()) if isinstance(a, torch.Tensor) else ctypes.c_void_p(0) if a is None else ctypes.c_int(a) for a in args]
        pointers = (ctypes.c_void_p * len(held))(*[ctypes.cast(ctypes.byref(h), ctypes.c_void_p) for h in held])
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        check(driver.cuLaunchKernel(self.function, *self.grid, self.threads, 1, 1, self.shared, stream, pointers, None), "launch")


@triton.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, G: tl.constexpr, EVEN: tl.constexpr):
    block = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = block // (G * columns) * G
    height = min(rows - first, G)
    bi = first + block % (G * columns) % height
    bj = block % (G * columns) // height
    i, j, k = bi * BM + tl.arange(0, BM), bj * BN + tl.arange(0, BN), tl.arange(0, BK)
    pa = a + (i % M)[:, None] * K + k[None, :]
    pb = b + k[:, None] * N + (j % N)[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for at in range(0, tl.cdiv(K, BK)):
        if EVEN:
            x, y = tl.load(pa), tl.load(pb)
        else:
            x = tl.load(pa, mask=k[None, :] < K - at * BK, other=0.0)
            y = tl.load(pb, mask=k[:, None] < K - at * BK, other=0.0)
        acc = tl.dot(x, y, acc)
        pa += BK
        pb += BK * N
    out = acc.to(tl.float16)
    inside = (i < M)[:, None] & (j < N)[None, :]
    tl.store(c + i[:, None] * N + j[None, :], out, mask=inside)


# Tiles, depth and warps that suit mma.sync; the fastest is the peer.
TRITON = [
    (BM, BN, BK, stages, warps, group)
    for group in (8,)
    for BM, BN, BK, stages, warps in (
        (128, 128, 32, 3, 4), (128, 128, 32, 4, 4), (128, 128, 32, 5, 4), (128, 128, 64, 3, 4),
        (128, 256, 32, 3, 8), (128, 256, 32, 4, 8), (128, 256, 64, 3, 8), (128, 256, 64, 4, 8), (256, 128, 64, 4, 8), (256, 128, 32, 3, 8), (256, 128, 32, 4, 8), (256, 128, 64, 3, 8),
        (128, 128, 64, 3, 8), (128, 128, 64, 4, 8), (128, 128, 32, 4, 8), (64, 256, 32, 4, 4), (256, 64, 32, 4, 4),
    )
]


def triton_kernel(m, n, k, config):
    """Compiles the Triton product for sm_80 and loads its PTX."""
    BM, BN, BK, stages, warps, group = config
    constants = {"BM": BM, "BN": BN, "BK": BK, "G": group, "EVEN": k % BK == 0}
    types = {"a": "*fp16", "b": "*fp16", "c": "*fp16", "M": "i32", "N": "i32", "K": "i32"} | {name: "constexpr" for name in constants}
    sizes = {3: m, 4: n, 5: k}
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(6) if i < 3 or sizes[i] % 16 == 0}
    source = ASTSource(product, types, constexprs=constants, attrs=attrs)
    made = triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": warps, "num_stages": stages})
    ptx = made.asm["ptx"]
    if "wgmma" in ptx or "mma.sync" not in ptx:
        raise RuntimeError("Triton's code for sm_80 is not of the mma.sync class")
    grid = (-(-m // BM) * -(-n // BN), 1, 1)
    kernel = Kernel(ptx.encode(), made.metadata.name, grid, warps * 32, made.metadata.shared)
    kernel.extra = ptx.split(".entry", 1)[1].split(")", 1)[0].count(".param") - 6  # scratch pointers
    kernel.ptx = ptx
    return kernel


def matrix_instructions(ptx):
    """Counts matrix instructions of the machine code, where the tools are there."""
    with tempfile.TemporaryDirectory() as d:
        source, binary = os.path.join(d, "x.ptx"), os.path.join(d, "x.cubin")
        with open(source, "w") as f:
            f.write(ptx)
        major, minor = torch.cuda.get_device_capability()
        try:
            subprocess.run(["ptxas", f"-arch=sm_{major}{minor}" + ("a" if major == 9 else ""), source, "-o", binary], check=True, capture_output=True)
            sass = subprocess.run(["cuobjdump", "-sass", binary], check=True, capture_output=True, text=True).stdout
        except (OSError, subprocess.CalledProcessError) as e:
            return {"unknown": str(e)}
    return {name: sass.count(name + ".") for name in ("HMMA", "HGMMA", "LDSM", "LDGSTS")} | {"lines": sass.count(";")}


def graph_of(call):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call(0)
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for i in range(LAUNCHES):
            call(i)
    return graph


def elapsed(graph):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    graph.replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1000 / LAUNCHES


def measure(kernels, folder, rounds, only):
    sizes = {(x["m"], x["n"], x["k"]) for x in kernels}
    out = []
    for m, n, k in sorted(sizes):
        torch.manual_seed(1)
        # Two sets that take turns, so that no launch finds its inputs where the last left them.
        a = [torch.randn(m, k, device="cuda", dtype=torch.float16) for _ in range(2)]
        b = [torch.randn(k, n, device="cuda", dtype=torch.float16) for _ in range(2)]
        c = torch.empty(m, n, device="cuda", dtype=torch.float16)
        want = torch.matmul(a[0].float(), b[0].float())
        contenders = {}  # name -> (call, facts)

        def add(name, call, facts):
            if not only.search(name):
                return
            c.fill_(float("nan"))
            try:
                call(0)
                torch.cuda.synchronize()
                error = ((c.float() - want).norm() / want.norm()).item()
                if not error < 1e-3 and "unchecked" not in facts:
                    print(f"{name}: WRONG, relative error {error}")
                    out.append({"what": "gemm", "name": name, "m": m, "n": n, "k": k, "result": f"wrong: {error}", **facts})
                    return
                contenders[name] = (graph_of(call), {**facts, "rel_error": error})
            except RuntimeError as e:
                print(f"{name}: {e}")

        add("cublas", lambda i: torch.matmul(a[i % 2], b[i % 2], out=c), {})
        for config in TRITON:
            if not only.search("triton"):
                break
            try:
                kernel = triton_kernel(m, n, k, config)
            except Exception as e:  # a schedule that does not fit is none
                print(f"triton {config}: {type(e).__name__}: {str(e)[:200]}")
                continue
            facts = {"config": config, "registers": kernel.registers, "local_bytes": kernel.local, "blocks_per_sm": kernel.per_sm, "ptx": kernel.ptx}
            add("triton " + " ".join(map(str, config)), lambda i, kernel=kernel: kernel.launch([a[i % 2], b[i % 2], c, m, n, k] + [None] * kernel.extra), facts)
        for x in kernels:
            if (x["m"], x["n"], x["k"]) != (m, n, k):
                continue
            try:
                with open(os.path.join(folder, x["ptx"]), "rb") as f:
                    image = f.read()
                kernel = Kernel(image, x["entry"], x["grid"], x["threads"], x["shared"])
            except (OSError, RuntimeError) as e:
                print(f"{x['name']}: {e}")
                continue
            scratch = {p["name"]: torch.zeros(p["bytes"], device="cuda", dtype=torch.uint8) for p in x.get("scratch", [])}

            def call(i, x=x, kernel=kernel, scratch=scratch):
                named = {"a": a[i % 2], "b": b[i % 2], "c": c, "M": m, "N": n, "K": k} | scratch
                kernel.launch([named[p] for p in x["params"]])

            add(x["name"], call, {"hash": x.get("hash", ""), **({"unchecked": True} if x.get("unchecked") else {}), "registers": kernel.registers, "local_bytes": kernel.local, "blocks_per_sm": kernel.per_sm, **({"ptx": image.decode()} if x["ptx"].endswith(".ptx") else {})})

        samples = {name: [] for name in contenders}
        for turn in range(rounds + 1):
            for name, (graph, _) in contenders.items():
                us = elapsed(graph)
                if turn:  # the first warms up
                    samples[name].append(us)
        flops = 2.0 * m * n * k
        rows = []
        for name, (_, facts) in contenders.items():
            us = statistics.median(samples[name])
            rows.append({"what": "gemm", "name": name, "m": m, "n": n, "k": k, "result": "unchecked" if "unchecked" in facts else "close", "median_us": us,
                         "min_us": min(samples[name]), "max_us": max(samples[name]), "tflops": flops / us / 1e6, **facts})
        best = min((r for r in rows if r["name"].startswith("triton")), key=lambda r: r["median_us"], default=None)
        cublas = next((r for r in rows if r["name"] == "cublas"), None)
        for r in rows:
            if cublas:
                r["of_cublas"] = cublas["median_us"] / r["median_us"]
            if best:
                r["of_triton_mma_sync"] = best["median_us"] / r["median_us"]
            if r is best or not r["name"].startswith("triton") and "ptx" in r:
                r["machine"] = matrix_instructions(r["ptx"])
            r.pop("ptx", None)
        out += sorted(rows, key=lambda r: r["median_us"])
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernels", help="list of our kernels")
    parser.add_argument("-o", "--out", default="gemm.json")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--ladder", default="", help="rows that TestGPULadder -record wrote; they go into the output")
    parser.add_argument("--only", default="", help="regular expression of the names to time")
    parser.add_argument("--commit", default="")
    options = parser.parse_args()
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    with open(options.kernels) as f:
        kernels = json.load(f)
    rows = measure(kernels, os.path.dirname(os.path.abspath(options.kernels)), options.rounds, re.compile(options.only))
    origin = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__, "rounds": options.rounds, "launches": LAUNCHES, "commit": options.commit}
    made = {"origin": origin, "rows": rows}
    if options.ladder:
        with open(options.ladder) as f:
            made["ladder"] = json.load(f)
    with open(options.out, "w") as f:
        json.dump(made, f, indent="\t")
    for r in rows:
        if "median_us" in r:
            print(f"{r['m']}x{r['n']}x{r['k']} {r['name']:44s} {r['median_us']:9.1f} us {r['tflops']:6.1f} TFLOP/s  {r.get('of_cublas', 0):.3f} of cuBLAS  "
                  f"{r.get('of_triton_mma_sync', 0):.3f} of Triton  {r.get('registers', '')} {r.get('local_bytes', '')} {r.get('blocks_per_sm', '')} {r.get('machine', '')}")
    return 1 if any(r["result"].startswith("wrong") for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
