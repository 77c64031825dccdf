"""Times quantised products beside cuBLAS on one GPU, for tests/record.

    python3 tests/peers/qmm_peer.py ./tilus-lab -o qmm.json [--commit C] [--command model] [-- flags of that command]

Runs `tilus-lab bench gemm --cublas`, which times torch.matmul (cuBLAS, f16 or bf16) on the
same sizes in the same run, and keeps its rows with their origin. Needs torch and a GPU; no Go.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import torch


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tilus_lab")
    parser.add_argument("-o", required=True)
    parser.add_argument("--commit", default="")
    parser.add_argument("--command", default="gemm", choices=["gemm", "model"])
    ours, flags = sys.argv[1:], []
    if "--" in ours:
        at = ours.index("--")
        ours, flags = ours[:at], ours[at + 1 :]
    a = parser.parse_args(ours)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows.json")
        done = subprocess.run([a.tilus_lab, "bench", a.command, "--json", path, "--commit", a.commit, "--cublas", sys.executable, *flags])
        rows = json.load(open(path))
    for row in rows:
        print(f"{row['weight']:8} {row['act']:5} {row['layer']:8} {row['m']:5} {row['median_us']:9.2f} µs, {row.get('of_cublas', 0):.2f} times cuBLAS, {row.get('ratio', 0):.3f} of the read kernel")
    json.dump({"origin": {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "commit": a.commit}, "rows": rows}, open(a.o, "w"), indent="\t")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
