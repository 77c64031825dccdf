#!/usr/bin/env python3
"""Times attention by Hopper's means and torch's alternately on one GPU.

    CGO_ENABLED=0 go test -c -o attention.test ./gpu/attention/template
    python3 tests/peers/attention_turns.py ./attention.test --commit COMMIT -o tests/record/attention_hopper.json     # on the GPU machine

For each shape every round times our schedules and torch's backends one after the other, each the median of five runs of a
graph some milliseconds long. The faster schedule and the faster backend, by their medians over the rounds, are compared: ratio is the
median over the rounds of torch's time over ours in that round, above 1 where ours is faster. Time depends on power, and power on what
ran just before, so that the two have to take turns. Our side is one process beside this one, which waits while torch is timed.
"""
import argparse
import json
import os
import statistics
import subprocess

import torch

from attention_peer import BACKENDS, attention


class Ours:
    def __init__(self, binary):
        self.child = subprocess.Popen([os.path.abspath(binary), "-test.run", "^TestGPUHopperTurns$", "-turns"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **what):
        self.child.stdin.write(json.dumps(what) + "\n")
        self.child.stdin.flush()
        for line in self.child.stdout:
            if line.startswith("row "):
                return json.loads(line[4:])
            print(line, end="")
        raise SystemExit(f"{what}: our side ended")

    def close(self):
        self.child.stdin.close()
        self.child.wait()


class Torch:
    """A graph of a backend's calls."""

    def __init__(self, shape, causal, backend, flops):
        calls = attention(*shape, causal, backend=backend)
        for c in calls:
            c()
        torch.cuda.synchronize()
        self.n = max(1, int(3e-3 / (flops / 500e12)))
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for i in range(self.n):
                calls[i % len(calls)]()
        self.calls = calls  # hold their inputs

    def time(self, runs=5):
        self.graph.replay()
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(runs + 1)]
        marks[0].record()
        for m in marks[1:]:
            self.graph.replay()
            m.record()
        torch.cuda.synchronize()
        return statistics.median(a.elapsed_time(b) * 1e3 / self.n for a, b in zip(marks, marks[1:]))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("binary")
    p.add_argument("-o", "--out", required=True)
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--commit", default="")
    args = p.parse_args()
    ours, out = Ours(args.binary), []
    for head in 64, 128:
        for seq in 2048, 4096, 8192, 16384:
            for causal in False, True:
                rows = ours.ask(Head=head, Causal=causal, Seq=seq)
                shape = rows[0]["shape"]
                flops = 4 * shape[0] * shape[1] * shape[2] * shape[3] * head / (2 if causal else 1)
                backends = {}
                with torch.inference_mode():
                    for name in BACKENDS:
                        try:
                            backends[name] = Torch(shape, causal, name, flops)
                        except RuntimeError as e:  # a backend that this torch or this GPU lacks
                            print(f"{name}: {e}", flush=True)
                    us, peers = [[] for _ in rows], {b: [] for b in backends}
                    for _ in range(args.rounds):
                        for b, t in backends.items():
                            peers[b].append(t.time())
                        for i in range(len(rows)):
                            us[i].append(ours.ask(Schedule=i))
                del backends
                torch.cuda.empty_cache()
                row, times = min(zip(rows, us), key=lambda x: statistics.median(x[1]))
                peer, theirs = min(peers.items(), key=lambda x: statistics.median(x[1]))
                ratios = [t / o for t, o in zip(theirs, times)]
                entry = {"kernel": row["kernel"], "shape": shape, "options": row["options"], "ours_us": statistics.median(times), "tflops": flops / statistics.median(times) / 1e6,
                         "error": row["error"], "peer": f"torch scaled_dot_product_attention, {peer} backend", "peer_us": statistics.median(theirs),
                         "peers_us": {f"torch scaled_dot_product_attention, {b} backend": statistics.median(t) for b, t in peers.items()}, "ratio": statistics.median(ratios),
                         "rounds_us": times, "rounds_peer_us": theirs, "hash": row["hash"], "commit": args.commit, "gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
                out.append(entry)
                print(f'{entry["kernel"]:24} {str(shape):28} ours {entry["ours_us"]:9.2f} µs {entry["tflops"]:6.1f} TFLOPS (schedules {", ".join(f"{statistics.median(t):.1f}" for t in us)})  {peer} {entry["peer_us"]:9.2f} µs  '
                      f'ratio {entry["ratio"]:.3f} ({", ".join(f"{r:.3f}" for r in ratios)})', flush=True)
                with open(args.out, "w") as f:
                    json.dump(out, f, indent="\t")
                    f.write("\n")
    ours.close()


if __name__ == "__main__":
    main()
