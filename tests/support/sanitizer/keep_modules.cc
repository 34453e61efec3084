// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Linked into sanitizer builds only: modules stay loaded to the end. A leak inside a module that
// Open MPI has closed again would be printed as "<unknown module>", which no suppression matches.

extern "C" int dlclose(void* /*handle*/) { return 0; }
