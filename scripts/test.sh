#!/bin/bash
# Installs what is missing, builds everything and runs every test; ends in ctest's own summary.
#   scripts/test.sh [CTEST ARGUMENTS...]      e.g. scripts/test.sh -L style
set -euo pipefail
source "$(dirname "$0")/lib.sh"

if [[ ${1:-} == --help || ${1:-} == -h ]]; then
  sed -n '2,3s/^# \{0,1\}//p' "$0"
  exit 0
fi
install_packages build test
build_targets
say "Testing"
ctest --test-dir "$build_folder" --output-on-failure -j "$(nproc)" "$@"
