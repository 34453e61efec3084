// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// Writes the reference of all keys to the file that the command line names.

#include "quadrille/base/file.h"
#include "quadrille/config/job_reference.h"

int main(int count, char** arguments) {
  if (count != 2) return 2;
  return quadrille::write_file_atomically(arguments[1], quadrille::job_reference_markdown()) ? 0
                                                                                             : 1;
}
