# Copyright The Quadrille Authors
# SPDX-License-Identifier: Apache-2.0
"""What the style tests share: the files of the project, its table of rooms, and C++ without its prose."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODE_FOLDERS = ("include", "src", "launcher", "tests", "benchmarks", "examples")
GENERATED = ("build", "runs", "data", ".git", ".cache")
NOT_WRITTEN = ("__pycache__", "corpus")  # corpus: inputs of fuzz targets, any bytes


def files(*suffixes, folders=CODE_FOLDERS):
    """Relative paths of the files with these suffixes, in a stable order."""
    found = []
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in suffixes and path.is_file():
                found.append(path.relative_to(ROOT))
    return found


def all_text_files():
    """Every hand-written text file of the project; hostile inputs are not prose."""
    suffixes = {".h", ".cc", ".cu", ".md", ".cmake", ".py", ".sh", ".json", ".txt", ".in", ""}
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        if parts[0] in GENERATED or parts[0].startswith("build") or set(NOT_WRITTEN) & set(parts):
            continue
        if parts[:3] == ("tests", "fuzz", "corpus"):
            continue
        if path.is_file() and not path.is_symlink() and path.suffix in suffixes:
            yield path.relative_to(ROOT)


def read(relative):
    return (ROOT / relative).read_text(encoding="utf-8")


def rooms(text=None):
    """{room: (level, [rooms it may include])} from the table that CMake builds the libraries from."""
    text = text if text is not None else read("cmake/QuadrilleRooms.cmake")
    table = {}
    for name, level, allowed in re.findall(r'^  "([a-z]+) (\d+) :([a-z ]*)"$', text, re.MULTILINE):
        table[name] = (int(level), allowed.split())
    return table


_PROSE = re.compile(
    r'R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|//[^\n]*|/\*.*?\*/',
    re.DOTALL)


def without_prose(source):
    """C++ with comments and literals blanked, line numbers kept."""

    def blank(match):
        text = match.group(0)
        return "\n" * text.count("\n") if text.startswith("/") else '""' + "\n" * text.count("\n")

    return _PROSE.sub(blank, source)
