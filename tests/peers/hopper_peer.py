#!/usr/bin/env python3
"""Times matrix products of the Hopper ladder and torch's (cuBLAS) alternately on one GPU.

    CGO_ENABLED=0 go test -c -o hopper.test ./gpu/gemm/hopper
    python3 tests/peers/hopper_peer.py ./hopper.test -o hopper.json     # on the GPU machine

Every round times torch and then the ladder's last step, for f16, bf16 and f8e4m3; the
ratio is that of the medians over the rounds. Numbers on both sides are of magnitude 0.5
to 1 and of either sign: time depends on power, and power on the numbers.
"""
import argparse
import json
import statistics
import subprocess
import tempfile
import time

import torch

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f8e4m3": torch.float8_e4m3fn}


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


def ours_us(binary, n):
    with tempfile.NamedTemporaryFile(suffix=".json") as f:
        subprocess.run([binary, "-test.run", "GPULadder", "-only", "v5", "-size", str(n), "-record", f.name], check=True, stdout=subprocess.DEVNULL)
        return {row["name"].split()[2]: row["median_us"] for row in json.load(open(f.name))}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("binary")
    p.add_argument("-o", "--out", required=True)
    p.add_argument("--size", type=int, default=8192)
    p.add_argument("--rounds", type=int, default=3)
    args = p.parse_args()
    ours, peer = {t: [] for t in TYPES}, {t: [] for t in TYPES}
    for _ in range(args.rounds):
        for t in TYPES:
            peer[t].append(torch_us(t, args.size))
        torch.cuda.empty_cache()
        for t, us in ours_us(args.binary, args.size).items():
            ours[t].append(us)
    rows = []
    for t in TYPES:
        o, q = statistics.median(ours[t]), statistics.median(peer[t])
        rows.append({"what": "peer", "name": f"matmul_hopper v5 {t} {args.size}", "ours_us": o, "torch_us": q, "ratio": q / o, "rounds_ours": ours[t], "rounds_torch": peer[t]})
        print(f"{t:7} {o:9.1f} us, torch {q:9.1f} us: {100 * q / o:.1f} %")
    json.dump({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "rows": rows}, open(args.out, "w"), indent="\t")


if __name__ == "__main__":
    main()
