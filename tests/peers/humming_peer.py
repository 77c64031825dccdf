"""Times Humming's quantised products, and cuBLAS, for rows that `tilus-lab bench gemm` wrote.

    python3 tests/peers/humming_peer.py rows.json -o with_humming.json [--seconds 60]

For each row of integer or float weights that Humming has, the same product by its layer: groups, scales, zero points and
activations as in the row, one scale for all weights where ours have a factor, CUDA graphs of launches that rotate over copies
of the weights, as many bytes as ours, medians of replays, x and scales resident. Rows gain
"humming_us" and "of_humming", how many times as fast ours is. Needs torch, humming-kernels and a GPU; no Go.
"""

import argparse
import copy
import json
import statistics
import sys
import time
import traceback

import torch


WORKING_SET = 3 << 29  # bytes; workingSet of gpu/qmm/bench.go


def graph_time(calls, launches):
    """µs of a call, calls taking turns."""
    stream = torch.cuda.Stream()
    launches = -(-launches // len(calls)) * len(calls)
    with torch.cuda.stream(stream):
        for call in calls:
            call()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for i in range(launches):
                calls[i % len(calls)]()
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


def name_of(weight):
    """Humming's name of a type of ours."""
    if weight[0] in "ui":
        return {"u": "uint", "i": "int"}[weight[0]] + weight[1:]
    return "float" + weight[1:]


def config_of(row):
    """Humming's configuration of the weights of a row of ours."""
    config = {"dtype": name_of(row["weight"]), "group_size": row["group"]}
    if row["scale"].startswith("f8"):
        config["scale_dtype"] = "float" + row["scale"][1:]
    if row.get("factor"):
        config["scale_2_type"] = "tensor"
    if row["group"] in (0, row["k"]):
        config["group_size"] = 0
    if row.get("zero_point"):
        config["has_zero_point"] = True
        config["is_fp_zero_point"] = row.get("any_zero", False)
    return config


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows")
    parser.add_argument("-o", required=True)
    parser.add_argument("--seconds", type=float, default=60)
    a = parser.parse_args()
    rows = json.load(open(a.rows))
    rows = rows["rows"] if isinstance(rows, dict) else rows
    begin = time.time()
    from humming.layer import HummingLayer

    layers, key = None, None
    for row in sorted(rows, key=lambda r: (r["n"], r["k"], json.dumps(config_of(r)), r["act"], r["m"])):
        if time.time() - begin > a.seconds:
            print("out of time", file=sys.stderr)
            break
        n, k, m, weight = row["n"], row["k"], row["m"], row["weight"]
        act = {"f16": torch.float16, "bf16": torch.bfloat16}[row["act"]]
        try:
            config = config_of(row)
            if key != (n, k, config, act):
                layers, key = None, (n, k, config, act)
                torch.cuda.empty_cache()
                layer = HummingLayer(shape_n=n, shape_k=k, weight_config=config, torch_dtype=act).cuda()
                layer.load_from_unquantized(torch.randn(n, k, device="cuda", dtype=act).mul_(0.02))
                layer.transform()
                size = sum(p.nbytes for p in layer.parameters())
                layers = [layer] + [copy.deepcopy(layer) for _ in range(max(1, -(-WORKING_SET // size) - 1))]
            x = torch.randn(m, k, device="cuda", dtype=act)
            row["humming_us"] = graph_time([lambda l=l: l(x) for l in layers], 16 if m < 1024 else 4)
            row["of_humming"] = row["humming_us"] / row["median_us"]
            print(f"{weight:8} {row['scale']:7} {row['act']:5} {row['layer']:8} {m:5}: Humming {row['humming_us']:9.2f} µs, ours {row['median_us']:9.2f} µs, {row['of_humming']:.2f} times as fast", flush=True)
        except Exception:
            print(f"{weight} {row['layer']} {m}: " + traceback.format_exc()[-900:], file=sys.stderr, flush=True)
            key = None
    json.dump({"origin": {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}, "rows": rows}, open(a.o, "w"), indent="\t")


if __name__ == "__main__":
    main()
