#!/bin/bash
# Builds the fuzz targets with clang and sanitizers, and runs each for a time; what they find to be new
# grows in build/fuzz/corpus, a failing input stands in build/fuzz.
#   scripts/fuzz.sh [SECONDS_FOR_EACH] [TARGET...]      e.g. scripts/fuzz.sh 600 job
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
shift || true
targets=("$@")
build=build/fuzz
if [[ ${#targets[@]} == 0 ]]; then
  mapfile -t targets < <(cd tests/fuzz && ls ./*_fuzz.cc | sed 's|^\./||; s|_fuzz\.cc$||')
fi
command -v clang++ > /dev/null || { echo "scripts/fuzz.sh needs clang++ (Debian: clang)" >&2; exit 2; }

cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ \
  -DQUADRILLE_BUILD_TESTS=OFF -DQUADRILLE_BUILD_FUZZERS=ON -DQUADRILLE_WARNINGS_AS_ERRORS=OFF \
  -DQUADRILLE_SANITIZE=fuzzer-no-link,address,undefined > /dev/null
for target in "${targets[@]}"; do
  cmake --build "$build" --target "${target}_fuzz"
  mkdir -p "$build/corpus/$target"
  echo "== $target for $seconds s"
  UBSAN_OPTIONS=halt_on_error=1 "$build/bin/${target}_fuzz" -max_total_time="$seconds" -print_final_stats=1 \
    -artifact_prefix="$build/$target-" "$build/corpus/$target" "tests/fuzz/corpus/$target"
done
