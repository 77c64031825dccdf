"""Times quantised products of many rows beside Humming and cuBLAS, by turns.

    python3 tests/peers/prefill_peer.py "tilus-lab bench gemm --commit HASH" --types u4,f6e3m2 --shapes o --batches 4096 -o rows.json

For some types after the other: the command, which writes rows, then Humming's layers of those
types, where it has them, and torch.matmul (cuBLAS) in this process; so often as --rounds says.
A row's times are medians of its rounds: what a GPU is warm from meets all three, whose graphs hold as many
launches, since a GPU that its power limits slows down within some 20 ms. Needs torch and a GPU;
rows have no Humming times without humming-kernels.
"""

import argparse
import importlib.util
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

import torch

from humming_peer import graph_time, name_of


class Plain:
    """Products of cuBLAS, timed."""

    def __init__(self):
        self.w = {}

    def time(self, m, n, k, act, launches):
        dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[act]
        if (n, k, act) not in self.w:
            self.w = {(n, k, act): [torch.randn(n, k, device="cuda", dtype=dtype) for _ in range(2)]}
        x = torch.randn(m, k, device="cuda", dtype=dtype)
        y = torch.empty(m, n, device="cuda", dtype=dtype)
        return graph_time([lambda w=w: torch.matmul(x, w.T, out=y) for w in self.w[n, k, act]], launches)


class Humming:
    """Products of Humming's layers, timed."""

    def __init__(self):
        self.key = self.layers = None
        self.there = importlib.util.find_spec("humming") is not None

    def time(self, m, n, k, weight, group, launches):
        from humming.layer import HummingLayer

        if self.key != (n, k, weight):
            self.key, self.layers = (n, k, weight), None
            layer = HummingLayer(shape_n=n, shape_k=k, weight_config={"dtype": name_of(weight), "group_size": group}, torch_dtype=torch.float16).cuda()
            layer.load_from_unquantized(torch.randn(n, k, device="cuda", dtype=torch.float16).mul_(0.02))
            layer.transform()
            self.layers = [layer]
        x = torch.randn(m, k, device="cuda", dtype=torch.float16)
        return graph_time([lambda l=l: l(x) for l in self.layers], launches)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command")
    parser.add_argument("--types", required=True)
    parser.add_argument("--shapes", default="o")
    parser.add_argument("--batches", default="4096")
    parser.add_argument("--plans", default="expand")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--each", type=int, default=4, help="types that follow each other")
    parser.add_argument("--seconds", type=float, default=60, help="begin nothing further after so long")
    parser.add_argument("-o", required=True)
    a = parser.parse_args()
    types, begin = a.types.split(","), time.time()
    found, plain, humming = {}, Plain(), Humming()
    for _ in range(a.rounds):
        for i in range(0, len(types), a.each):
            if time.time() - begin > a.seconds:
                print("out of time", file=sys.stderr)
                break
            with tempfile.TemporaryDirectory() as d:
                out = os.path.join(d, "rows.json")
                run = subprocess.run(shlex.split(a.command) + ["--types", ",".join(types[i : i + a.each]), "--shapes", a.shapes, "--batches", a.batches, "--plans", a.plans, "--json", out], capture_output=True, text=True)
                if run.returncode:
                    print(run.stdout[-900:] + run.stderr[-900:], file=sys.stderr)
                if not os.path.exists(out):
                    continue
                rows = json.load(open(out))
            rows = rows["rows"] if isinstance(rows, dict) else rows
            if rows:  # a GPU that has rested is up to a tenth faster: that is for nobody
                plain.time(rows[0]["m"], rows[0]["n"], rows[0]["k"], rows[0]["act"], rows[0]["launches"])
            for row in rows:
                m, n, k = row["m"], row["n"], row["k"]
                key = (row["layer"], row["weight"], row["act"], m, row["plan"])
                _, times = found.setdefault(key, (row, {"ours": [], "cublas": [], "humming": []}))
                times["ours"].append(row["median_us"])
                try:
                    times["cublas"].append(plain.time(m, n, k, row["act"], row["launches"]))
                    if humming.there and row["group"] == 128 and row["act"] == "f16":
                        times["humming"].append(humming.time(m, n, k, row["weight"], 128, row["launches"]))
                except Exception:
                    humming.key = None
                    print(f"{key}: " + traceback.format_exc()[-400:], file=sys.stderr, flush=True)
                torch.cuda.empty_cache()
                print(f"{row['weight']:8} {row['layer']:8} {m:6}: " + ", ".join(f"{who} {t[-1]:9.2f} µs" for who, t in times.items() if t) + f", {time.time() - begin:.0f} s", flush=True)
            write(a.o, found)


def write(path, found):
    rows = []
    for row, times in found.values():
        row = dict(row, rounds=len(times["ours"]), median_us=statistics.median(times["ours"]))
        for who in ("cublas", "humming"):
            if times[who]:
                row[who + "_us"] = statistics.median(times[who])
                row["of_" + who] = row[who + "_us"] / row["median_us"]
        rows.append(row)
    with open(path, "w") as f:
        json.dump({"origin": {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}, "rows": rows}, f, indent="\t")


if __name__ == "__main__":
    main()
