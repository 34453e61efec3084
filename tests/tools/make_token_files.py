#!/usr/bin/env python3
# Copyright The Quadrille Authors
# SPDX-License-Identifier: Apache-2.0
"""Makes the token files of tests/data/golden with the tools of those who read them too.

The Megatron pairs are written by megatron-core's own IndexedDatasetBuilder; the llm.c shards by
numpy in the layout of llm.c's write_datafile (a header of 256 int32, then the tokens), since
llm.c is no package. Run it in a virtual environment outside the repository:

    python3 -m venv /tmp/peers
    /tmp/peers/bin/pip install numpy torch megatron-core
    /tmp/peers/bin/python tests/tools/make_token_files.py tests/data/golden

Token i of document d is (7919 * (d + 1) + 104729 * i) % limit, which the tests compute as well.
"""

import pathlib
import sys

import numpy
import torch
from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder

DOCUMENTS = [5, 1, 300, 17]  # Tokens of each; the third has three sequences.
THIRD = [100, 150, 50]


def tokens(document, limit):
    return [(7919 * (document + 1) + 104729 * i) % limit for i in range(DOCUMENTS[document])]


def write_llmc(path, magic, version, dtype, limit):
    stream = [token for d in range(len(DOCUMENTS)) for token in tokens(d, limit)]
    header = numpy.zeros(256, dtype=numpy.int32)
    header[:3] = magic, version, len(stream)
    with open(path, "wb") as file:
        file.write(header.tobytes())
        file.write(numpy.array(stream, dtype=dtype).tobytes())


def write_megatron(prefix, dtype, limit):
    builder = IndexedDatasetBuilder(f"{prefix}.bin", dtype=dtype)
    for d in range(len(DOCUMENTS)):
        lengths = THIRD if d == 2 else [DOCUMENTS[d]]
        builder.add_document(torch.tensor(tokens(d, limit), dtype=torch.int64), lengths)
    builder.finalize(f"{prefix}.idx")
    read = IndexedDataset(str(prefix))
    assert len(read) == len(DOCUMENTS) + len(THIRD) - 1
    assert list(read[0]) == tokens(0, limit)


def main():
    folder = pathlib.Path(sys.argv[1])
    write_llmc(folder / "llmc_uint16.bin", 20240520, 1, numpy.uint16, 50257)
    write_llmc(folder / "llmc_uint32.bin", 20240801, 7, numpy.uint32, 128256)
    write_megatron(folder / "megatron_uint16", numpy.uint16, 50257)
    write_megatron(folder / "megatron_int32", numpy.int32, 128256)


if __name__ == "__main__":
    main()
