#!/usr/bin/env python3
"""Time torch's attention, softmax and layer norm beside ours.

    attention_peer.py attention.json.flash attention.json.rows … -o peers.json

Each file holds rows that gpu/attention/template's GPU tests recorded on this
machine. For each kernel and shape the fastest of our schedules is kept and torch
computes the same, with the same kind of inputs, timed by CUDA events around a
graph of launches over inputs that rotate. The output has one entry for each: our
time, that of the fastest of torch's backends, and ratio = torch / ours, which is above 1 where ours is faster.
"""
import argparse
import json
import os
import statistics

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

L2 = 4 * 60 << 20


def microseconds(calls, replays=9):
    """The median time of one call, in graphs of whole rounds over the calls."""
    for c in calls[:2]:
        c()
    torch.cuda.synchronize()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    calls[0]()
    end.record()
    torch.cuda.synchronize()
    rounds = max(1, int(3.0 / max(start.elapsed_time(end), 1e-3) / len(calls)))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(rounds):
            for c in calls:
                c()
    graph.replay()
    times = []
    for _ in range(replays):
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / rounds / len(calls))
    return statistics.median(times)


def copies(size):
    return max(2, -(-L2 // size))


BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}


def attention(b, h, m, n, head, causal, dtype=torch.float16, kv=None, backend="flash"):
    """calls of torch's attention by a backend; kv is the number of key heads, if fewer."""
    kv = kv or h
    calls = []
    for _ in range(2):
        q = torch.randn(b, h, m, head, device="cuda", dtype=dtype)
        k = torch.randn(b, kv, n, head, device="cuda", dtype=dtype)
        v = torch.randn(b, kv, n, head, device="cuda", dtype=dtype)

        def call(q=q, k=k, v=v):
            with sdpa_kernel(BACKENDS[backend]):
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=kv != h)

        calls.append(call)
    return calls


def rows(kernel, n, columns):
    kind, elem = kernel.rsplit("_", 1)
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}[elem]
    size = n * columns * torch.tensor([], dtype=dtype).element_size()
    calls = []
    for _ in range(copies(size)):
        x = torch.randn(n, columns, device="cuda", dtype=dtype)
        if kind == "softmax":
            calls.append(lambda x=x: torch.softmax(x, -1))
        else:
            w, bias = torch.randn(columns, device="cuda", dtype=dtype), torch.randn(columns, device="cuda", dtype=dtype)
            calls.append(lambda x=x, w=w, bias=bias: F.layer_norm(x, (columns,), w, bias, 1e-5))
    return calls


def peers(row):
    """What torch has for a row: names and calls."""
    kernel, shape = row["kernel"], row["shape"]
    name = "torch scaled_dot_product_attention, %s backend"
    if kernel.startswith("flash"):
        # programs of mma.sync stand beside the backend of their class
        for backend in BACKENDS if "hopper" in kernel else ["flash"]:
            yield name % backend, attention(*shape, kernel.endswith("_causal"), backend=backend)
    elif kernel.startswith("decode"):
        b, h, kv, n, head = shape
        yield name % "flash", attention(b, h, 1, n, head, False, kv=kv)
    else:
        yield "torch " + kernel.rsplit("_", 1)[0], rows(kernel, *shape)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("-o", default="peers.json")
    args = parser.parse_args()
    best = {}
    for path in args.files:
        if not os.path.exists(path):
            print(f"{path} is missing", flush=True)
            continue
        with open(path) as f:
            for row in json.load(f):
                key = (row["kernel"], tuple(row["shape"]))
                if row.get("median_us", 0) > 0 and (key not in best or row["median_us"] < best[key]["median_us"]):
                    best[key] = row
    out = []
    for row in best.values():
        all_us = {}
        with torch.inference_mode():
            for title, calls in peers(row):
                try:
                    all_us[title] = microseconds(calls)
                except RuntimeError as e:  # a backend that this torch or this GPU lacks
                    print(f"{title}: {e}", flush=True)
                del calls
                torch.cuda.empty_cache()
        name, us = min(all_us.items(), key=lambda x: x[1])
        entry = {"kernel": row["kernel"], "shape": row["shape"], "options": row["options"], "ours_us": row["median_us"], "gbps": row["gb_s"], "tflops": row["tflops"],
                 "peer": name, "peer_us": us, "peers_us": all_us, "ratio": us / row["median_us"], "hash": row["hash"], "commit": row["commit"], "gpu": row["gpu"], "torch": torch.__version__}
        out.append(entry)
        print(f'{entry["kernel"]:20} {str(entry["shape"]):28} ours {entry["ours_us"]:9.2f} µs  {name} {us:9.2f} µs  ratio {entry["ratio"]:.3f}', flush=True)
        with open(args.o, "w") as f:
            json.dump(out, f, indent="\t")
            f.write("\n")


if __name__ == "__main__":
    main()
