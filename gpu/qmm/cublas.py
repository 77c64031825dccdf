"""Times torch.matmul (cuBLAS) beside quantised products.

Reads {"act": "f16" or "bf16", "shapes": [[m, n, k], …]} from standard input and writes a list
of µs, one for each shape: CUDA graphs of launches that rotate over copies of the weights,
as many bytes as those of quantised products, medians of replays. Needs torch and a GPU.
"""

import json
import statistics
import sys


WORKING_SET = 3 << 29  # bytes; workingSet of bench.go


def cublas(m, n, k, dtype):
    """µs of x[m, k] · w[n, k]ᵀ, weights out of the cache."""
    import torch

    sets = max(2, -(-WORKING_SET // (2 * n * k)))
    x = torch.randn(m, k, device="cuda", dtype=dtype)
    w = [torch.randn(n, k, device="cuda", dtype=dtype) for _ in range(sets)]
    y = torch.empty(m, n, device="cuda", dtype=dtype)
    launches = -(-16 // sets) * sets
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for i in range(3):
            torch.matmul(x, w[i % sets].T, out=y)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for i in range(launches):
                torch.matmul(x, w[i % sets].T, out=y)
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


def main():
    import torch

    ask = json.load(sys.stdin)
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[ask["act"]]
    json.dump([cublas(m, n, k, dtype) for m, n, k in ask["shapes"]], sys.stdout)


if __name__ == "__main__":
    main()
