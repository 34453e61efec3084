# Copyright The Quadrille Authors
# SPDX-License-Identifier: Apache-2.0
"""clang-format decides the layout. Exit code 77 where it is not installed: a skip, which ctest counts."""

import os
import shutil
import subprocess
import sys

import repository


def formatter():
    """clang-format 14 and no other: each version formats a little differently."""
    for name in ("clang-format-14", "clang-format"):
        path = shutil.which(name)
        if path and " 14." in subprocess.run([path, "--version"], capture_output=True, text=True).stdout:
            return path
    return None


def main():
    program = formatter()
    if not program:
        print("skipped: clang-format 14 is not installed")
        return 77
    paths = [path.as_posix() for path in repository.files(".h", ".cc", ".cu")]
    workers = os.cpu_count() or 1
    groups = [paths[i::workers] for i in range(workers)]
    running = [subprocess.Popen([program, "--dry-run", "--Werror", *group], cwd=repository.ROOT)
               for group in groups if group]
    codes = [process.wait() for process in running]
    planted = subprocess.run([program, "--dry-run", "--Werror", "--assume-filename=a.cc"],
                             input="int  x ;\n", text=True, capture_output=True, cwd=repository.ROOT)
    if planted.returncode == 0:
        print("the formatter accepts what it must not: .clang-format is not read")
        return 1
    if any(codes):
        print("run: cmake --build build/release --target format")
    return 1 if any(codes) else 0


if __name__ == "__main__":
    sys.exit(main())
