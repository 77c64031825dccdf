#!/usr/bin/env python3
"""Count with Nsight Compute what our fusions ask of memory, beside what their maps predict.

    fusion_counters.py ./launch.test -o fusion_counters.json [--ncu ncu] [--cases REGEXP] [--mib N]

launch.test is gpu/emit/launch compiled as a test. Each kernel is launched once; the lines
of the profiler and of -counters come in the same order.
"""
import argparse
import csv
import json
import subprocess
import sys
import tempfile

METRICS = {
    "loads": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "stores": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "reductions": "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum",
    "reduction_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum",
    "atomics": "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum",
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "dram_read": "dram__bytes_read.sum",
    "dram_written": "dram__bytes_write.sum",
}


def number(text):
    return float(text.replace(",", "")) if text else 0.0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("test")
    p.add_argument("-o", default="fusion_counters.json")
    p.add_argument("--ncu", default="ncu")
    p.add_argument("--cases", default="")
    p.add_argument("--mib", type=int, default=512)
    p.add_argument("--commit", default="")
    o = p.parse_args()
    said = tempfile.mktemp()
    cmd = [o.ncu, "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none", "--metrics", ",".join(METRICS.values()),
           o.test, "-test.run", "GPUCounters", "-counters", said, "-mib", str(o.mib)]
    if o.cases:
        cmd += ["-cases", o.cases]
    out = subprocess.run(cmd, stdout=subprocess.PIPE, text=True).stdout
    lines = [x for x in out.splitlines() if x.startswith('"')]
    table = [r for r in csv.DictReader(lines) if r.get("ID", "").isdigit()]  # the line after the names holds units
    with open(said) as f:
        predicted = json.load(f)
    if len(table) != len(predicted):
        print(out[:2000], file=sys.stderr)
        sys.exit("%d launches were counted, %d predicted" % (len(table), len(predicted)))
    rows = []
    for r, q in zip(table, predicted):
        if not r["Kernel Name"].startswith(q["kernel"]):
            sys.exit("%s was counted, %s predicted" % (r["Kernel Name"], q["kernel"]))
        m = {k: number(r.get(v, "")) for k, v in METRICS.items()}
        c = q["counters"]
        row = {k: q[k] for k in ("case", "dtype", "kernel")}
        row["predicted"] = {"loads": c["Loads"], "stores": c["Stores"], "atomics": c["Atomics"], "sectors": c["Sectors"],
                            "wavefronts": c["Wavefronts"], "dram_read": q["read"], "dram_written": q["written"]}
        row["measured"] = {"loads": m["loads"], "stores": m["stores"], "atomics": m["reductions"] + m["atomics"],
                           "sectors": m["load_sectors"] + m["store_sectors"] + m["reduction_sectors"],
                           "wavefronts": m["shared_load_wavefronts"] + m["shared_store_wavefronts"],
                           "dram_read": m["dram_read"], "dram_written": m["dram_written"]}
        rows.append(row)
        print("%-24s %-5s %-16s " % (q["case"], q["dtype"], q["kernel"]) +
              "  ".join("%s %.4g/%.4g" % (k, row["predicted"][k], row["measured"][k]) for k in row["predicted"]))
    with open(o.o, "w") as f:
        json.dump({"commit": o.commit, "mib": o.mib, "rows": rows}, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
