#!/usr/bin/env python3
"""Times the ladder of Hopper products and torch's (cuBLAS) alternately on one GPU.

    CGO_ENABLED=0 go test -c -o hopper.test ./gpu/gemm/hopper
    python3 tests/peers/hopper_peer.py ./hopper.test --commit COMMIT -o tests/record/hopper.json     # on the GPU machine
    go test ./gpu/gemm/hopper -run Record -update                                                    # the figure

Every round times the steps in f16, and torch just before the last step of each type; a
rung's ratio is the median over the rounds of torch's time over its own in that round.
Our side is one process beside this one, which waits while torch is timed. Numbers on
both sides are of magnitude 0.5 to 1 and of either sign: time depends on power, and
power on the numbers. The driver's cache is off, so that every load compiles; ptxas,
where it is installed, compiles the same PTX in each round and counts spills and waits. Times to compile are the
least of the rounds behind the first: others also wait for the machine.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time

import torch

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f8e4m3": torch.float8_e4m3fn}
ORDER = ["v0 f16", "v1 f16", "v2 f16", "v3 f16", "v4 f16", None, "v5 f16", None, "v5 bf16", None, "v5 f8e4m3"]


def numbers(n, dtype):
    x = (torch.rand(n, n, device="cuda") * 0.5 + 0.5) * (torch.randint(0, 2, (n, n), device="cuda") * 2 - 1)
    return x.to(dtype)


def median_us(f, launches=4, replays=7):
    for _ in range(3):
        f()
    torch.cuda.synchronize()
    times = []
    for _ in range(replays):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        for _ in range(launches):
            f()
        b.record()
        torch.cuda.synchronize()
        times.append(a.elapsed_time(b) * 1000 / launches)
    return statistics.median(times)


def torch_us(name, n):
    dtype = TYPES[name]
    a, b = numbers(n, dtype), numbers(n, dtype)
    if name != "f8e4m3":
        c = torch.empty(n, n, device="cuda", dtype=dtype)
        return median_us(lambda: torch.matmul(a, b.T, out=c))
    one = torch.ones((), device="cuda")
    # The faster of both ways to accumulate is the peer.
    return min(median_us(lambda: torch._scaled_mm(a, b.T, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=fast)) for fast in (True, False))


class Ours:
    """The test binary, which times a rung for each line."""

    def __init__(self, binary, size, commit, folder):
        self.child = subprocess.Popen(
            [os.path.abspath(binary), "-test.run", "^TestGPUTurns$", "-turns", folder, "-size", str(size), "-commit", commit],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "CUDA_CACHE_DISABLE": "1"})

    def time(self, name):
        self.child.stdin.write(name + "\n")
        self.child.stdin.flush()
        for line in self.child.stdout:
            if line.startswith("row "):
                return json.loads(line[4:])
            print(line, end="")
        raise SystemExit(f"{name}: our side ended")

    def close(self):
        self.child.stdin.close()
        self.child.wait()


def assemble(file):
    """What ptxas says of PTX: milliseconds, bytes of spills, and whether products wait. It comes in each round, as our load does."""
    ptxas = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
    if not os.path.exists(ptxas):
        return {}
    start = time.perf_counter()
    run = subprocess.run([ptxas, "-v", "-arch=sm_90a", "-o", os.devnull, file], capture_output=True, text=True, check=True)
    ms = (time.perf_counter() - start) * 1000
    said = run.stdout + run.stderr
    words = said.replace(",", "").split()
    spills = sum(int(words[i - 1]) for i in range(1, len(words) - 1) if words[i] == "bytes" and words[i + 1] == "spill")
    return {"ptxas_ms": ms, "spill_bytes": spills, "serialised": said.count("serializ")}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("binary")
    p.add_argument("-o", "--out", required=True)
    p.add_argument("--size", type=int, default=8192)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=1e9, help="begin no round after so long")
    p.add_argument("--commit", default="")
    args = p.parse_args()
    begin = time.perf_counter()
    rows, ours, peer, jit, assembled = {}, {}, {}, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        child = Ours(args.binary, args.size, args.commit, folder)
        rounds = 0
        while rounds < args.rounds and (rounds == 0 or time.perf_counter() - begin < args.seconds):
            for i, name in enumerate(ORDER):
                if name is None:
                    t = ORDER[i + 1].split()[1]
                    peer.setdefault(t, []).append(torch_us(t, args.size))
                    torch.cuda.empty_cache()
                    continue
                row = child.time(name)
                rows.setdefault(name, row)
                ours.setdefault(name, []).append(row["median_us"])
                jit.setdefault(name, []).append((row["compile_ms"], row["jit_ms"]))
                assembled.setdefault(name, []).append(assemble(os.path.join(folder, name.replace(" ", "_") + ".ptx")))
            rounds += 1
        child.close()
        out = []
        for name, row in rows.items():
            t = name.split()[1]
            ratios = [q / o for q, o in zip(peer[t], ours[name])]
            warm = jit[name][1:] or jit[name]
            row.update(what="ladder", size=args.size, median_us=statistics.median(ours[name]), tflops=2 * args.size**3 / statistics.median(ours[name]) / 1e6,
                       cublas_us=statistics.median(peer[t]), of_cublas=statistics.median(ratios), rounds_us=ours[name], rounds_cublas_us=peer[t],
                       compile_ms=min(c for c, _ in warm), jit_ms=min(j for _, j in warm),
                       **{**assembled[name][0], **({"ptxas_ms": min(a["ptxas_ms"] for a in assembled[name])} if assembled[name][0] else {})})
            out.append(row)
            print(f"{name:10} {row['median_us']:8.1f} us {row['tflops']:7.1f} TFLOP/s, cuBLAS {row['cublas_us']:8.1f} us: {100 * row['of_cublas']:5.1f} % (rounds {', '.join(f'{100 * r:.1f}' for r in ratios)}); "
                  f"compile {row['compile_ms']:.1f} ms, JIT {row['jit_ms']:.0f} ms, ptxas {row.get('ptxas_ms', 0):.0f} ms, spills {row.get('spill_bytes')}, waits {row.get('serialised')}")
    json.dump({"origin": {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rounds": rounds, "commit": args.commit, "utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}, "rows": out}, open(args.out, "w"), indent="\t")


if __name__ == "__main__":
    main()
