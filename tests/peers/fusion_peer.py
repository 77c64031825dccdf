#!/usr/bin/env python3
"""Time XLA and Inductor beside our fusions, in one run on one machine.

    fusion_peer.py --bench xla_peer.py rows.json -o fusion_times.json

rows.json is what the GPU tests of gpu/emit/launch write with -rows. xla_peer.py times
both peers and merges our rows; its samples of results are compared too. How long each
takes from a fusion's text or function to something that can be launched is measured
for some cases, each in a process of its own with caches off.
"""
import argparse
import importlib.util
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

COMPILED = ("ew_add", "ew_fma_relu", "transpose_10", "row_reduce_4096", "column_reduce_4096", "softmax_rows_4096", "gather_rows", "concat_minor")


def load(path):
    spec = importlib.util.spec_from_file_location("xla_peer", path)
    m = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(m)
    return m


def compile_jax(bench, budget):
    import jax
    import jax.numpy as jnp
    from jax import lax
    out = {}
    jax.jit(lambda x: x * 3 - 1).lower(jax.ShapeDtypeStruct((128,), jnp.float32)).compile()  # libraries are there
    end = time.time() + budget
    for dt, t in (("f32", jnp.float32), ("bf16", jnp.bfloat16)):
        for c in bench.cases(bench.DTYPES[dt], 512):
            if c.name not in COMPILED or time.time() > end:
                continue
            args = [jax.ShapeDtypeStruct(s, t) for s in c.shapes.values()]
            args += [jax.ShapeDtypeStruct((v[0],), jnp.int32) for v in c.indices.values()]
            fn = c.jax_fn(jnp, lax, jax)
            lowered = jax.jit(fn).lower(*args)
            t0 = time.perf_counter()
            lowered.compile()
            out[c.name + "/" + dt] = (time.perf_counter() - t0) * 1e3
    return out


def compile_inductor(bench, budget):
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()
    os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()
    os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
    import torch
    out = {}
    torch.compile(lambda x: x * 3 - 1, dynamic=False)(torch.zeros(4096, device="cuda"))
    end = time.time() + budget
    for dt, t in (("f32", torch.float32), ("bf16", torch.bfloat16)):
        for c in bench.cases(bench.DTYPES[dt], 512):
            if c.name not in COMPILED or time.time() > end:
                continue
            args = [torch.zeros(s, dtype=t, device="cuda") for s in c.shapes.values()]
            args += [torch.zeros(v[0], dtype=torch.int32, device="cuda") for v in c.indices.values()]
            torch._dynamo.reset()
            fn = torch.compile(c.torch_fn(torch), dynamic=False)
            torch.cuda.synchronize()
            t0 = time.perf_counter()
            with torch.no_grad():
                fn(*args)
            torch.cuda.synchronize()
            out[c.name + "/" + dt] = (time.perf_counter() - t0) * 1e3
            del args, fn
            torch.cuda.empty_cache()
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("rows")
    p.add_argument("-o", default="fusion_times.json")
    p.add_argument("--bench", required=True, help="xla_peer.py")
    p.add_argument("--budget-s", type=float, default=120, help="seconds for each peer")
    p.add_argument("--compile-s", type=float, default=25, help="seconds for each peer's compilations")
    p.add_argument("--repeats", type=int, default=5)
    p.add_argument("--cases", default="")
    p.add_argument("--child", default="", help=argparse.SUPPRESS)
    o = p.parse_args()
    if o.child:
        f = {"jax": compile_jax, "inductor": compile_inductor}[o.child]
        print("JSON:" + json.dumps(f(load(o.bench), o.compile_s)))
        return
    compiled = {}
    for fw in ("jax", "inductor"):
        r = subprocess.run([sys.executable, os.path.abspath(__file__), o.rows, "--bench", o.bench, "--child", fw, "--compile-s", str(o.compile_s)],
                           stdout=subprocess.PIPE, text=True, timeout=3 * o.compile_s + 60)
        for line in r.stdout.splitlines():
            if line.startswith("JSON:"):
                compiled[fw] = json.loads(line[5:])
    cmd = [sys.executable, o.bench, "--merge", o.rows, "--torch-kinds", "inductor", "--budget-s", str(o.budget_s), "--repeats", str(o.repeats)]
    if o.cases:
        cmd += ["--cases", o.cases]
    doc = json.loads(subprocess.run(cmd, stdout=subprocess.PIPE, text=True).stdout)
    with open(o.rows) as f:
        given = json.load(f)
    ours = {(r["case"], r["dtype"]): r for r in given["rows"]}
    out, ratios = [], []
    for c in doc["compare"]:
        key = (c["case"], c["dtype"])
        r = ours.get(key)
        if r is None:
            continue
        row = {k: r[k] for k in ("case", "group", "dtype", "ideal_bytes", "us", "gbps", "compile_ms", "load_ms", "hash") if k in r}
        if given.get("read_gbps"):
            row["of_read"] = round(r["gbps"] / given["read_gbps"], 3)
        for fw in ("jax", "inductor"):
            if c.get(fw + "_gbps"):
                row[fw + "_gbps"] = c[fw + "_gbps"]
                row["over_" + fw] = round(r["gbps"] / c[fw + "_gbps"], 3)
            name = "%s/%s" % key
            if name in compiled.get(fw, {}):
                row[fw + "_compile_ms"] = round(compiled[fw][name], 1)
        if c.get("best_peer_gbps"):
            row["over_best_peer"] = c["tilus_over_best_peer"]
            ratios.append(c["tilus_over_best_peer"])
        row["values_agree"] = c.get("values_agree", {}).get("tilus")
        out.append(row)
        print("%-26s %-5s %8.1f GB/s  jax %-7s inductor %-7s ratio %-6s of read %-6s values %s  compile+load %.1f ms, jax %s, inductor %s" % (
            key[0], key[1], r["gbps"], row.get("jax_gbps"), row.get("inductor_gbps"), row.get("over_best_peer"), row.get("of_read"), row["values_agree"],
            r["compile_ms"] + r["load_ms"], row.get("jax_compile_ms"), row.get("inductor_compile_ms")))
    mean = math.exp(statistics.fmean(math.log(x) for x in ratios)) if ratios else None
    if ratios:
        print("%d cases: geometric mean of our GB/s over the better peer's %.3f, least %.3f" % (len(ratios), mean, min(ratios)))
    with open(o.o, "w") as f:
        json.dump({"gpu": doc["gpu"], "meta": doc["meta"], "commit": given.get("commit"), "read_gbps": given.get("read_gbps"),
                   "geometric_mean": mean, "least": min(ratios) if ratios else None, "rows": out}, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
