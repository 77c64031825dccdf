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


def names(bench):
    return [c.name for c in bench.cases(4, 512)]


def warm(o, bench):
    """Fill Inductor's caches from several processes, so that timing all cases fits into a lease.

    What the processes, which disturb each other, find the fastest configurations is
    removed: the process that is timed looks for them itself.
    """
    cache = tempfile.mkdtemp()
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
    os.environ["TORCHINDUCTOR_FX_GRAPH_CACHE"] = "1"
    env = dict(os.environ, TORCHINDUCTOR_COMPILE_THREADS="1")
    chosen = [c for c in names(bench) if not o.cases or c in o.cases.split(",")]
    jobs = [(dt, chosen[i::o.warm // 2]) for dt in bench.DTYPES for i in range(o.warm // 2)]
    run = [subprocess.Popen([sys.executable, o.bench, "--child", "torch", "--torch-kinds", "inductor", "--repeats", "1", "--batch", "1",
                             "--budget-s", str(o.warm_s), "--dtypes", dt, "--cases", ",".join(some)],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env) for dt, some in jobs if some]
    end = time.time() + 2 * o.warm_s
    for p in run:
        try:
            p.wait(max(1, end - time.time()))
        except subprocess.TimeoutExpired:
            p.kill()
    for folder, _, files in os.walk(cache):
        for f in files:
            if f.endswith(".best_config"):
                os.remove(os.path.join(folder, f))


def peer(o, framework):
    """What xla_peer.py finds of one framework."""
    cmd = [sys.executable, o.bench, "--frameworks", framework, "--torch-kinds", "inductor", "--budget-s", str(o.budget_s),
           "--repeats", str(o.repeats), "--samples"]
    if o.cases:
        cmd += ["--cases", o.cases]
    return json.loads(subprocess.run(cmd, stdout=subprocess.PIPE, text=True).stdout)


def compile_times(o, framework):
    r = subprocess.run([sys.executable, os.path.abspath(__file__), o.rows, "--bench", o.bench, "--child", framework, "--compile-s", str(o.compile_s)],
                       stdout=subprocess.PIPE, text=True, timeout=3 * o.compile_s + 60)
    for line in r.stdout.splitlines():
        if line.startswith("JSON:"):
            return json.loads(line[5:])
    return {}


def write(o, bench, given, docs, compiled):
    """Write what is known so far; the table of it."""
    ours = {(r["case"], r["dtype"]): r for r in given["rows"]}
    rows = [r for d in docs.values() for r in d["rows"]] + given["rows"]
    samples = {(r["framework"], r["case"], r["dtype"]): r["sample"] for r in rows if r.get("sample")}
    tolerance = {(c.name, dt): c.tol if c.tol is not None else (3e-2 if es == 2 else 1e-3) for dt, es in bench.DTYPES.items() for c in bench.cases(es, 512)}
    out, ratios, missing = [], [], []
    for c in bench.compare(rows, 512):
        key = (c["case"], c["dtype"])
        r = ours.get(key)
        if r is None:
            continue
        row = {k: r[k] for k in ("case", "group", "dtype", "ideal_bytes", "us", "gbps", "compile_ms", "load_ms", "hash") if k in r}
        for of in ("read", "copy"):
            if given.get(of + "_gbps"):
                row["of_" + of] = round(r["gbps"] / given[of + "_gbps"], 3)
        for fw in ("jax", "inductor"):
            if c.get(fw + "_gbps"):
                row[fw + "_gbps"] = c[fw + "_gbps"]
                row["over_" + fw] = round(r["gbps"] / c[fw + "_gbps"], 3)
            else:
                missing.append("%s %s/%s" % (fw, *key))
            name = "%s/%s" % key
            if name in compiled.get(fw, {}):
                row[fw + "_compile_ms"] = round(compiled[fw][name], 1)
        if c.get("best_peer_gbps"):
            row["over_best_peer"] = c["tilus_over_best_peer"]
            ratios.append(c["tilus_over_best_peer"])
        # Sums of hundreds of numbers in bf16 depend on who adds them, and how.
        row["values_agree"] = {fw: bench.close(samples[fw, *key], r["sample"], tolerance[key]) for fw in ("jax", "inductor")
                               if (fw, *key) in samples and r.get("sample")}
        out.append(row)
    mean = math.exp(statistics.fmean(math.log(x) for x in ratios)) if ratios else None
    lines = ["%-26s %-5s %8.1f GB/s  jax %-7s inductor %-7s ratio %-6s of read %-6s of copy %-6s values %s  compile+load %.1f ms, jax %s, inductor %s" % (
        r["case"], r["dtype"], r["gbps"], r.get("jax_gbps"), r.get("inductor_gbps"), r.get("over_best_peer"), r.get("of_read"), r.get("of_copy"), "/".join(str(v) for v in r["values_agree"].values()),
        r["compile_ms"] + r["load_ms"], r.get("jax_compile_ms"), r.get("inductor_compile_ms")) for r in out]
    if ratios:
        lines.append("%d cases: geometric mean of our GB/s over the better peer's %.3f, least %.3f" % (len(ratios), mean, min(ratios)))
    if missing:
        lines.append("without a time: " + ", ".join(missing))
    machine = next((d["gpu"] for d in docs.values()), {})
    doc = {"gpu": machine.get("name"), "machine": machine, "meta": {k: v for d in docs.values() for k, v in d["meta"].items()},
           "commit": given.get("commit"), "read_gbps": given.get("read_gbps"), "copy_gbps": given.get("copy_gbps"),
           "geometric_mean": mean, "least": min(ratios) if ratios else None, "rows": out}
    with open(o.o + ".part", "w") as f:
        json.dump(doc, f, indent=1)
        f.write("\n")
    os.replace(o.o + ".part", o.o)
    return lines


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("rows")
    p.add_argument("-o", default="fusion_times.json")
    p.add_argument("--bench", required=True, help="xla_peer.py")
    p.add_argument("--budget-s", type=float, default=120, help="seconds for each peer")
    p.add_argument("--compile-s", type=float, default=25, help="seconds for each peer's compilations")
    p.add_argument("--warm", type=int, default=8, help="processes that fill Inductor's caches; 0 for none")
    p.add_argument("--warm-s", type=float, default=40, help="seconds for that")
    p.add_argument("--repeats", type=int, default=5)
    p.add_argument("--cases", default="")
    p.add_argument("--child", default="", help=argparse.SUPPRESS)
    o = p.parse_args()
    bench = load(o.bench)
    if o.child:
        f = {"jax": compile_jax, "inductor": compile_inductor}[o.child]
        print("JSON:" + json.dumps(f(bench, o.compile_s)))
        return
    with open(o.rows) as f:
        given = json.load(f)
    docs, compiled, began = {}, {}, time.time()

    def stage(name, work):
        print("%6.1f s: %s" % (time.time() - began, name), flush=True)
        try:
            return work()
        except Exception as e:  # what other stages find is kept
            print("%s failed: %r" % (name, e), flush=True)
            return None

    if o.warm > 1:
        stage("compile with Inductor", lambda: warm(o, bench))
    for fw in ("torch", "jax"):
        d = stage("time " + fw, lambda: peer(o, fw))
        if d:
            docs[fw] = d
        lines = write(o, bench, given, docs, compiled)
    for fw in ("jax", "inductor"):
        compiled[fw] = stage("compile times of " + fw, lambda: compile_times(o, fw)) or {}
        lines = write(o, bench, given, docs, compiled)
    print("%6.1f s: done" % (time.time() - began))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
