"""Times quantised products beside cuBLAS on one GPU.

    python3 tests/peers/qmm_peer.py ./tilus-lab -o qmm.json [--commit C] [-- flags of tilus-lab bench gemm]

Runs `tilus-lab bench gemm --json`, then torch.matmul (cuBLAS, f16 and bf16) on the same
sizes: CUDA graphs of launches that rotate over copies of the weights beyond the cache,
medians of replays, as ours. Each of our rows gets "cublas_us" and "of_cublas", how
many times faster it is. Needs torch and a GPU; no Go.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import torch


def cublas(m, n, k, dtype):
    """µs of x[m, k] · w[n, k]ᵀ, weights out of the cache."""
    sets = max(2, -(-(240 << 20) // (2 * n * k)))
    x = torch.randn(m, k, device="cuda", dtype=dtype)
    w = [torch.randn(n, k, device="cuda", dtype=dtype) for _ in range(sets)]
    y = torch.empty(m, n, device="cuda", dtype=dtype)
    launches = -(-16 // sets) * sets
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for i in range(3):
            torch.matmul(x, w[i % sets].T, out=y)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for i in range(launches):
                torch.matmul(x, w[i % sets].T, out=y)
        times = []
        for i in range(9):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record(stream)
            graph.replay()
            end.record(stream)
            end.synchronize()
            if i >= 2:
                times.append(start.elapsed_time(end) * 1000 / launches)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tilus_lab")
    parser.add_argument("-o", required=True)
    parser.add_argument("--commit", default="")
    ours, flags = sys.argv[1:], []
    if "--" in ours:
        at = ours.index("--")
        ours, flags = ours[:at], ours[at + 1 :]
    a = parser.parse_args(ours)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows.json")
        done = subprocess.run([a.tilus_lab, "bench", "gemm", "--json", path, "--commit", a.commit, *flags])
        rows = json.load(open(path))
    peers = {}
    for row in rows:
        key = row["m"], row["n"], row["k"], row["act"]
        if key not in peers:
            peers[key] = cublas(row["m"], row["n"], row["k"], {"f16": torch.float16, "bf16": torch.bfloat16}[row["act"]])
            print(f"cuBLAS {row['act']:5} {row['layer']:8} {row['m']:5} {peers[key]:9.2f} µs")
        row["cublas_us"] = peers[key]
        row["of_cublas"] = peers[key] / row["median_us"]
    for row in rows:
        print(f"{row['weight']:8} {row['act']:5} {row['layer']:8} {row['m']:5} {row['median_us']:9.2f} µs, {row['of_cublas']:.2f} times cuBLAS, {row.get('ratio', 0):.3f} of the read kernel")
    json.dump({"origin": {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "commit": a.commit}, "rows": rows}, open(a.o, "w"), indent="\t")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
