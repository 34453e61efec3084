# Copyright The Quadrille Authors
# SPDX-License-Identifier: Apache-2.0
"""Dependencies point down: every #include is held against the one table of rooms.

A room sees the public headers of the rooms its line lists, and its own private headers. The launcher
sees public headers and its own. A vendor's header appears only in files named for the vendor.
"""

import re
import sys
import unittest

import repository

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.MULTILINE)
# Vendor header -> how the files under src/ that may include it are named.
VENDORS = {
    re.compile(r"mpi\.h$"): ("mpi",),
    re.compile(r"(oneapi/dnnl/|dnnl)"): ("onednn", "dnnl"),
    re.compile(r"cblas"): ("openblas",),
    re.compile(r"(cuda|cublas)"): ("cuda", "cublas"),
    re.compile(r"nccl"): ("nccl",),
}
# What a public header may include besides the standard library and Quadrille.
PUBLIC_THIRD_PARTY = ("tl/expected.hpp",)
HEAVY_STANDARD = ("iostream", "regex")


def room_of(path):
    """The room of include/quadrille/<room>/x.h or src/<room>/x.cc; None elsewhere."""
    parts = path.split("/")
    if path.startswith("include/quadrille/") and len(parts) > 3:
        return parts[2]
    if path.startswith("src/") and len(parts) > 2:
        return parts[1]
    return None


def table_faults(table):
    """A line that names a missing room or one that is not below it: no cycle is possible without one."""
    faults = []
    for room, (level, allowed) in table.items():
        for other in allowed:
            if other not in table:
                faults.append(f"{room} may include {other}, which is not in the table")
            elif table[other][0] >= level:
                faults.append(f"{room} (level {level}) may include {other} (level {table[other][0]})")
    return faults


def vendor_fault(path, header):
    for pattern, names in VENDORS.items():
        if pattern.match(header):
            stem = path.rsplit("/", 1)[-1]
            if not path.startswith("src/") or not any(name in stem for name in names):
                return f"{path}: {header} belongs in files of src/ named for {' or '.join(names)}"
    return None


def include_fault(path, bracket, header, table):
    """Why the file at `path` may not include `header`; None if it may."""
    public, room = path.startswith("include/"), room_of(path)
    if not path.startswith(("tests/", "benchmarks/", "examples/")):
        fault = vendor_fault(path, header)
        if fault:
            return fault
    if header.startswith("quadrille/"):
        other = header.split("/")[1]
        if other not in table:
            return f"{path}: {header} is of no room"
        if room and other != room and other not in table[room][1]:
            return f"{path}: room {room} may not include {header}"
        return None
    if public:
        standard = bracket == "<" and re.fullmatch(r"[a-z_0-9]+", header)
        if header in HEAVY_STANDARD or not (standard or header in PUBLIC_THIRD_PARTY):
            return f"{path}: a public header may not include {header}"
        return None
    if bracket == '"':
        owner = header.split("/")[0] if "/" in header else ""
        if room and owner != room:
            return f"{path}: {header} is not a private header of {room}; write \"{room}/...\""
        if path.startswith(("launcher/", "examples/")) and owner in table:
            return f"{path}: {header} is private to {owner}; only public headers are for the launcher"
    return None


def faults_of(path, source, table):
    room = room_of(path)
    if room and room not in table:
        return [f"{path}: {room} is not in the table of rooms"]
    found = []
    for bracket, header in INCLUDE.findall(source):
        fault = include_fault(path, bracket, header, table)
        if fault:
            found.append(fault)
    return found


class Checker(unittest.TestCase):
    """Planted faults: a check that finds none of them would prove nothing."""

    table = {"base": (0, []), "device": (2, ["base"]), "train": (6, ["base", "device"])}

    def fault(self, path, line):
        return faults_of(path, line, self.table)

    def test_accepts_what_the_table_allows(self):
        self.assertEqual([], self.fault("src/train/a.cc", '#include "quadrille/device/device.h"'))
        self.assertEqual([], self.fault("src/train/a.cc", '#include "train/step.h"'))
        self.assertEqual([], self.fault("src/device/mpi_a.cc", "#include <mpi.h>"))
        self.assertEqual([], self.fault("include/quadrille/base/a.h", "#include <vector>"))

    def test_refuses_an_upward_include(self):
        self.assertTrue(self.fault("src/device/a.cc", '#include "quadrille/train/trainer.h"'))
        self.assertTrue(self.fault("include/quadrille/base/a.h", '#include <quadrille/device/d.h>'))

    def test_refuses_private_headers_of_others(self):
        self.assertTrue(self.fault("src/train/a.cc", '#include "device/cgroup.h"'))
        self.assertTrue(self.fault("launcher/a.cc", '#include "device/cgroup.h"'))

    def test_refuses_vendor_headers_out_of_place(self):
        self.assertTrue(self.fault("src/train/step.cc", "#include <mpi.h>"))
        self.assertTrue(self.fault("launcher/mpi_start.cc", "#include <mpi.h>"))
        self.assertTrue(self.fault("src/train/step.cc", '#include "oneapi/dnnl/dnnl.hpp"'))

    def test_refuses_heavy_public_headers(self):
        for header in ("<iostream>", "<regex>", "<nlohmann/json.hpp>", "<fmt/format.h>", "<unistd.h>"):
            self.assertTrue(self.fault("include/quadrille/base/a.h", f"#include {header}"), header)

    def test_refuses_a_room_that_the_table_lacks(self):
        self.assertTrue(self.fault("src/utils/a.cc", ""))

    def test_refuses_a_table_that_points_up_or_to_nothing(self):
        self.assertEqual([], table_faults(self.table))
        self.assertTrue(table_faults({"a": (1, ["b"]), "b": (1, [])}))
        self.assertTrue(table_faults({"a": (1, ["c"])}))


class Repository(unittest.TestCase):
    def test_the_table_points_down(self):
        table = repository.rooms()
        text = repository.read("cmake/QuadrilleRooms.cmake")
        lines = re.search(r"set\(QUADRILLE_ROOMS\n(.*?)\n\)", text, re.DOTALL).group(1).split("\n")
        self.assertEqual(len(lines), len(table), "a line of the table could not be read")
        self.assertEqual([], table_faults(table))

    def test_every_include_is_allowed(self):
        table = repository.rooms()
        paths = repository.files(".h", ".cc", ".cu")
        self.assertTrue(any(str(path).startswith("src/base/") for path in paths))
        faults = [f for p in paths for f in faults_of(p.as_posix(), repository.read(p), table)]
        self.assertEqual([], faults, "\n" + "\n".join(faults))


if __name__ == "__main__":
    sys.exit(unittest.main())
