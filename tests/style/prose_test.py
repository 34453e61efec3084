# Copyright The Quadrille Authors
# SPDX-License-Identifier: Apache-2.0
"""What every file owes its reader, and the words and calls that have no place in it."""

import pathlib
import re
import sys
import unittest

import repository

SPDX = ("// Copyright The Quadrille Authors", "// SPDX-License-Identifier: Apache-2.0")
MOST_LINES = 450
MOST_COLUMNS = 100

# Joined here so that this file does not hold what it forbids.
BANNED = [re.compile(pattern) for pattern in (
    r"\b" + "TO" + r"DO\b", r"\b" + "FIX" + r"ME\b", r"\b" + "XX" + r"X\b", r"\b" + "HA" + r"CK\b",
    r"(?i)///? *(default |copy |move )?" + r"(constructor|destructor)\.",
    r"(?i)///? *this (class|function|method|struct) ",
    r"(?i)not (yet )?" + "implemented", r"(?i)\bshould " + "never happen",
)]

# Calls that only some files may make, each with the reason why it may.
RESERVED = [
    ("throw", re.compile(r"\bthrow\b"), ()),
    ("catch", re.compile(r"\bcatch\s*\("), (
        "src/base/json_parse.cc",  # nlohmann's reader throws
        "src/checkpoint/worker_thread.cc",  # std::thread throws where no thread is to be had
        r"src/(kernels|bench)/onednn_\w+\.cc",  # oneDNN's C++ interface throws
        r"launcher/\w+\.cc",  # CLI11 throws
    )),
    ("printing", re.compile(
        r"\bstd::(cout|cerr|clog)\b|(?<![\w.>])(std::)?(v?f?printf|puts|fputs|putchar)\s*\("), (
        "src/base/check.cc",  # the last words of a process that stops itself
        r"launcher/\w+\.cc",
        r"examples/.*",
    )),
    ("the environment", re.compile(r"\b(secure_)?getenv\s*\(|\bsetenv\s*\(|\benviron\b"), (
        r"src/launch/bootstrap\w*\.cc",
        "src/launch/child_process.cc",  # hands our environment on to rank processes
        r"launcher/\w+\.cc",
    )),
    ("exiting", re.compile(r"(?<![\w.>:])(std::|::)?(_?exit|_Exit|quick_exit|abort|terminate)\s*\("), (
        "src/base/check.cc",
        "src/launch/child_process.cc",  # the child between fork and exec
        "src/launch/bootstrap.cc",  # ends a rank process whose launcher is gone
        r"launcher/\w+\.cc",
        r"examples/.*",
    )),
]


def is_code_of_ours(path):
    return path.startswith(("include/", "src/", "launcher/", "examples/"))


def reserved_faults(path, source):
    """Reserved calls in library, launcher and example code; tests may do what they need."""
    if not is_code_of_ours(path):
        return []
    faults = []
    code = repository.without_prose(source)
    for what, pattern, allowed in RESERVED:
        if any(re.fullmatch(one, path) for one in allowed):
            continue
        for match in pattern.finditer(code):
            line = code.count("\n", 0, match.start()) + 1
            faults.append(f"{path}:{line}: {what} is not for this file: {match.group(0)}")
    return faults


def banned_faults(path, text):
    faults = []
    for number, line in enumerate(text.splitlines(), 1):
        for pattern in BANNED:
            if pattern.search(line):
                faults.append(f"{path}:{number}: {line.strip()}")
    return faults


def shape_faults(path, source):
    """Licence lines, file comment, length and width of a C++ file."""
    lines = source.splitlines()
    faults = []
    if tuple(lines[:2]) != SPDX:
        faults.append(f"{path}: does not begin with the two licence lines")
    # An -inl.h is compiled once per instruction set: its guard toggles in place of #pragma once.
    if path.endswith(".h") and not path.endswith("-inl.h"):
        body = "\n".join(lines[2:])
        if not re.match(r"#pragma once\n\n//", body):
            faults.append(f"{path}: needs #pragma once, an empty line and a comment that says what it is")
    if len(lines) > MOST_LINES:
        faults.append(f"{path}: {len(lines)} lines; {MOST_LINES} are the most")
    for number, line in enumerate(lines, 1):
        if len(line) > MOST_COLUMNS:
            faults.append(f"{path}:{number}: {len(line)} columns; {MOST_COLUMNS} are the most")
    return faults


def conditionals(source):
    """#if lines, but for those that Highway's run-time dispatch prescribes."""
    return sum(1 for line in source.splitlines()
               if re.match(r"\s*#\s*(if|ifdef|ifndef)\b", line) and "HWY_" not in line)


def changelog_faults(text):
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    faults = []
    if not headings or headings[0] != "Unreleased":
        faults.append('the first section is not "## Unreleased"')
    for heading in headings[1:]:
        if not re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d{2}-\d{2}", heading):
            faults.append(f'"## {heading}" is not "## VERSION - YEAR-MONTH-DAY"')
    for section in re.split(r"^## .*$", text, flags=re.MULTILINE)[2:]:
        if not re.search(r"^- \S", section, re.MULTILINE):
            faults.append("a released section lists no change")
    return faults


def broken_links(path, text):
    """Relative links of a Markdown file that lead nowhere."""
    found = []
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if not re.match(r"[a-z]+:", target) and not (repository.ROOT / path).parent.joinpath(target).exists():
            found.append(f"{path}: {target}")
    return found


class Checker(unittest.TestCase):
    """Planted faults: a check that finds none of them would prove nothing."""

    good = "\n".join(SPDX) + "\n#pragma once\n\n// What it is.\n"

    def test_reserved_calls_are_found_in_code_and_not_in_prose(self):
        for line in ("throw 1;", "try {} catch (...) {}", 'std::printf("x");', "std::cout << 1;",
                     'std::getenv("X");', "std::exit(1);", "abort();"):
            self.assertTrue(reserved_faults("src/comm/world.cc", line), line)
            self.assertEqual([], reserved_faults("src/comm/world.cc", "// " + line), line)
        self.assertEqual([], reserved_faults("src/comm/world.cc", 'log("throw exit() getenv()");'))
        self.assertEqual([], reserved_faults("src/comm/world.cc", "channel.abort(); snprintf(b, 1);"))
        self.assertEqual([], reserved_faults("launcher/main.cc", 'std::printf("x"); std::exit(1);'))
        self.assertEqual([], reserved_faults("tests/comm/world_test.cc", "throw 1;"))

    def test_banned_words_are_found(self):
        for line in ("// TO" + "DO: later", "/// Cons" + "tructor.", "// not imple" + "mented"):
            self.assertTrue(banned_faults("src/a.cc", line), line)
        self.assertEqual([], banned_faults("src/a.cc", "/// Sums the shards."))

    def test_shape_is_checked(self):
        self.assertEqual([], shape_faults("include/quadrille/base/a.h", self.good))
        self.assertTrue(shape_faults("a.h", "#pragma once\n"))
        self.assertTrue(shape_faults("a.h", "\n".join(SPDX) + "\n#pragma once\n#include <vector>\n"))
        self.assertTrue(shape_faults("a.h", self.good + "\n" * MOST_LINES))
        self.assertTrue(shape_faults("a.h", self.good + "/" * (MOST_COLUMNS + 1)))

    def test_changelog_is_checked(self):
        self.assertEqual([], changelog_faults("# C\n## Unreleased\n## 0.1.0 - 2026-01-31\n- one\n"))
        self.assertTrue(changelog_faults("# C\n## 0.1.0 - 2026-01-31\n- one\n"))
        self.assertTrue(changelog_faults("# C\n## Unreleased\n## v1\n- one\n"))
        self.assertTrue(changelog_faults("# C\n## Unreleased\n## 0.1.0 - 2026-01-31\n"))

    def test_conditionals_are_counted_without_dispatch(self):
        self.assertEqual(1, conditionals("#if HWY_ONCE\n#ifdef X\n#endif\n"))

    def test_broken_links_are_found(self):
        self.assertTrue(broken_links(pathlib.Path("README.md"), "[a](docs/nowhere.md)"))
        self.assertEqual([], broken_links(pathlib.Path("README.md"), "[a](LICENSE) [b](https://x.y)"))


class Repository(unittest.TestCase):
    def none(self, faults):
        self.assertEqual([], faults, "\n" + "\n".join(faults))

    def test_files_have_their_shape(self):
        self.none([f for p in repository.files(".h", ".cc", ".cu")
                   for f in shape_faults(p.as_posix(), repository.read(p))])

    def test_reserved_calls_are_where_they_belong(self):
        self.none([f for p in repository.files(".h", ".cc", ".cu")
                   for f in reserved_faults(p.as_posix(), repository.read(p))])

    def test_no_file_holds_a_banned_word(self):
        self.none([f for p in repository.all_text_files() if p.name != "LICENSE"
                   for f in banned_faults(p.as_posix(), repository.read(p))])

    def test_scripts_and_python_carry_the_licence(self):
        self.none([p.as_posix() for p in repository.files(".py", folders=("tests", "scripts"))
                   if "SPDX-License-Identifier: Apache-2.0" not in repository.read(p)])

    def test_conditional_compilation_is_rare(self):
        paths = repository.files(".h", ".cc", folders=("include", "src", "launcher"))
        sources = [repository.read(p) for p in paths]
        lines = sum(source.count("\n") for source in sources)
        self.assertLessEqual(sum(map(conditionals, sources)), lines / 1000)

    def test_the_changelog_is_well_formed(self):
        self.none(changelog_faults(repository.read("CHANGELOG.md")))

    def test_documents_are_short_and_their_links_lead_somewhere(self):
        for name, most in (("README.md", 200), ("docs/architecture.md", 150)):
            self.assertLessEqual(repository.read(name).count("\n"), most, name)
        self.none([f for p in repository.all_text_files() if p.suffix == ".md"
                   for f in broken_links(p, repository.read(p))])

    def test_every_dependency_is_explained(self):
        """docs/dependencies.md and the list that is installed name the same packages."""
        listed = {line.split()[1] for line in repository.read("scripts/packages.txt").splitlines()
                  if not line.startswith("#")}
        explained = set(re.findall(r"^\| `([^`]+)`", repository.read("docs/dependencies.md"), re.MULTILINE))
        self.assertEqual(listed, explained)


if __name__ == "__main__":
    sys.exit(unittest.main())
