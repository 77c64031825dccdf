#!/usr/bin/env python3
"""Asks a GPU's counters what the programs for Hopper wait for, by NVIDIA's ncu.

    hopper_ncu.py --products hopper.test --attention attention.test --commit COMMIT -o tests/record/hopper_ncu.json

The test binaries are those of gpu/gemm/hopper and gpu/attention/template. One launch of each program is
replayed some twenty times, with the clocks as the machine leaves them, and read; behind
it the binary is stopped.
"""
import argparse
import json
import re
import subprocess
import time

SECTIONS = ["SpeedOfLight", "ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis", "WarpStateStats", "Occupancy", "LaunchStats"]
FIELDS = {  # of a row: the metric's name, and its unit there
    "ghz": ("SM Frequency", {"Ghz": 1, "Mhz": 1e-3}),
    "us": ("Duration", {"us": 1, "ms": 1e3}),
    "elapsed_cycles": ("Elapsed Cycles", {"cycle": 1}),
    "active_cycles": ("SM Active Cycles", {"cycle": 1}),
    "compute_pct": ("Compute (SM) Throughput", {"%": 1}),
    "issue_pct": ("Issue Slots Busy", {"%": 1}),
    "dram_pct": ("DRAM Throughput", {"%": 1}),
    "l2_pct": ("L2 Cache Throughput", {"%": 1}),
    "l2_hit_pct": ("L2 Hit Rate", {"%": 1}),
    "spill_requests": ("Local Memory Spilling Requests", {"": 1}),
    "registers": ("Registers Per Thread", {"register/thread": 1}),
    "tensor_pct": ("sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active", {"%": 1}),
    "functions_pct": ("sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active", {"%": 1}),
}
METRICS = [name for name, _ in FIELDS.values() if "__" in name]


def read(text):
    row = {}
    for line in text.splitlines():
        for key, (name, units) in FIELDS.items():
            m = re.match(r"\s*" + re.escape(name) + r"\s+(\S*?)\s*([\d.,]+)\s*$", line)
            if m and m.group(1) in units and key not in row:
                row[key] = float(m.group(2).replace(",", "")) * units[m.group(1)]
    return row


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--products")
    p.add_argument("--attention")
    p.add_argument("--ncu", default="/usr/local/cuda/bin/ncu")
    p.add_argument("--commit", default="")
    p.add_argument("--read", nargs="*", default=[], help="NAME=FILE: what ncu wrote before, instead of running it")
    p.add_argument("-o", "--out", required=True)
    args = p.parse_args()
    jobs = [(f"v{i} f16", 3, [args.products, "-test.run", "TestGPULadder", "-only", f"v{i}"]) for i in range(6) if args.products]
    if args.attention:  # behind what checks small shapes
        jobs += [(f"attention {head}", 20, [args.attention, "-test.run", "GPUHopper", "-cases", f"flash_hopper_{head}.4096"]) for head in (64, 128)]
    texts = [(x.partition("=")[0], open(x.partition("=")[2]).read()) for x in args.read]
    for name, skip, command in jobs:
        full = [args.ncu, "--clock-control", "none", "--kill", "on", "--launch-skip", str(skip), "--launch-count", "1"]
        for s in SECTIONS:
            full += ["--section", s]
        full += ["--metrics", ",".join(METRICS)]
        run = subprocess.run(full + command, capture_output=True, text=True, timeout=60)
        texts.append((name, run.stdout + run.stderr))
    rows = []
    for name, text in texts:
        row = {"name": name, **read(text)}
        missing = [k for k in FIELDS if k not in row]
        if missing:
            print(f"{name}: no {missing}\n{text[-2000:]}")
            continue
        print(row)
        rows.append(row)
        with open(args.out, "w") as f:
            json.dump({"commit": args.commit, "utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "rows": rows}, f, indent="\t")
            f.write("\n")


if __name__ == "__main__":
    main()
