#!/usr/bin/env python3
# Copyright The Quadrille Authors
# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions of each kernel under callgrind and compares them with a file of counts.

check_instruction_counts.py PROGRAM COUNTS --compiler NAME [--rewrite]

A kernel that takes more than a tenth above its count fails. `--rewrite` writes the file anew; the
build has a target for it: `ninja rewrite_instruction_counts`. Exit 77 says that nothing was counted,
and why.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOM = 1.10
SKIPPED = 77


def skip(reason):
    print("skipped: " + reason)
    sys.exit(SKIPPED)


def count(program):
    """Instructions by case, in the order in which the program runs them."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", "--combine-dumps=no",
                   "--callgrind-out-file=" + folder + "/out", program]
        run = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False,
                             env={"OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"})
        if run.returncode != 0:
            sys.exit("valgrind failed:\n" + run.stderr)
        counts = {}
        dumps = [path for path in pathlib.Path(folder).iterdir() if path.suffix[1:].isdigit()]
        for dump in sorted(dumps, key=lambda path: int(path.suffix[1:])):
            text = dump.read_text(encoding="utf-8")
            name = re.search(r"^desc: Trigger: Client Request: (\S+)$", text, re.M)
            if name:
                counts[name.group(1)] = int(re.search(r"^totals: (\d+)", text, re.M).group(1))
        if not counts:
            sys.exit("valgrind counted nothing:\n" + run.stderr)
        return counts


def read(path):
    """The compiler that the counts are of, and the counts."""
    compiler, counts = "", {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# compiler: "):
            compiler = line.removeprefix("# compiler: ")
        elif line and not line.startswith("#"):
            name, instructions = line.split()
            counts[name] = int(instructions)
    return compiler, counts


def write(path, compiler, counts):
    lines = ["# Instructions of each kernel at the AVX2 target, see check_instruction_counts.py.",
             "# compiler: " + compiler]
    lines += [f"{name} {instructions}" for name, instructions in counts.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def compare(expected, found):
    """What is wrong, as lines; prints all counts."""
    problems = [f"{name} is in the file of counts and is not run" for name in expected.keys() - found]
    for name, instructions in found.items():
        if name not in expected:
            problems.append(f"{name} has no count in the file")
            continue
        ratio = instructions / expected[name]
        print(f"{name:24} {instructions:>12} {ratio:8.3f} of {expected[name]}")
        if ratio > ROOM:
            problems.append(f"{name} takes {ratio:.2f} times the instructions that it took")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("counts", type=pathlib.Path)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--rewrite", action="store_true")
    arguments = parser.parse_args()
    if shutil.which("valgrind") is None or not pathlib.Path(arguments.program).exists():
        skip("valgrind is not installed, or was not when this was built")
    if arguments.rewrite:
        write(arguments.counts, arguments.compiler, count(arguments.program))
        return
    compiler, expected = read(arguments.counts)
    if compiler != arguments.compiler:
        skip(f"the counts are of {compiler}, this build is by {arguments.compiler}")
    if "avx2" not in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        skip("this processor has no AVX2")
    problems = compare(expected, count(arguments.program))
    for problem in problems:
        print("error: " + problem)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
