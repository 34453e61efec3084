#!/bin/bash
# Runs every benchmark, prints their tables and writes what they found.
#   scripts/bench.sh [--quick] [--no-build] [--output FOLDER] [--page FILE.md]
# FOLDER (default: build/bench) gets results.json, of which `quadrille bench compare` shows two
# beside each other; FILE.md (default: docs/performance.md, none with --quick) the page. --quick
# takes tiny models: it shows that the script works, not how fast anything is. About ten minutes on
# two cores, which should have nothing else to do.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

quick=0 build=1 output=$repository/build/bench page=
while (($#)); do
  case $1 in
    --help | -h) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --quick) quick=1 ;;
    --no-build) build=0 ;;
    --output) output=${2:?--output needs a folder}; shift ;;
    --page) page=${2:?--page needs a file}; shift ;;
    *) die "unknown argument $1; see --help" ;;
  esac
  shift
done
((quick)) || page=${page:-$repository/docs/performance.md}
quadrille=${QUADRILLE:-$build_folder/bin/quadrille}
((build)) && build_targets quadrille_launcher
[[ -x $quadrille ]] || die "$quadrille is not built"
mkdir -p "$output"

tiny=(--layers 2 --hidden 24 --heads 3 --vocab 300 --context 16)
# arguments_of NAME: what the benchmark of that name is run with.
arguments_of() {
  if ((quick)); then
    case $1 in
      step) echo "${tiny[*]} --tokens 4x8 --repetitions 2" ;;
      gemm) echo "${tiny[*]} --tokens 2x8 --repetitions 2" ;;
      attention) echo "--length 16 --length 32 --repetitions 2" ;;
      optimizer) echo "${tiny[*]} --repetitions 2" ;;
      comm) echo "--ranks 2 --bytes 4KiB --bytes 2MiB --repetitions 2" ;;
      data) echo "--repetitions 2" ;;
      checkpoint) echo "${tiny[*]} --tokens 2x8 --repetitions 2" ;;
      generate) echo "${tiny[*]} --prompt 8 --tokens 2 --repetitions 2" ;;
    esac
  else
    case $1 in
      step) echo "--repetitions 7" ;;
      gemm | optimizer | comm | data) echo "--repetitions 9" ;;
      attention) echo "--repetitions 7" ;;
      *) echo "--repetitions 5" ;;
    esac
  fi
}

names=(step gemm attention optimizer comm data checkpoint generate)
started=$SECONDS failed=()
for name in "${names[@]}"; do
  say "quadrille bench $name ($((SECONDS - started)) s so far)"
  read -ra arguments <<<"$(arguments_of "$name")"
  # One that fails leaves the others their results; the script fails at its end.
  if ! "$quadrille" bench "$name" "${arguments[@]}" --json >"$output/$name.json"; then
    rm -f "$output/$name.json"
    failed+=("$name")
    continue
  fi
  "$quadrille" bench show "$output/$name.json"
done
results=()
for name in "${names[@]}"; do
  [[ -e $output/$name.json ]] && results+=("$output/$name.json")
done
((${#results[@]})) || die "no benchmark gave a result"
"$quadrille" bench show "${results[@]}" --json >"$output/results.json"

# describe: the page's head; the tables follow.
describe() {
  cat <<HEAD
# How fast

Written by \`scripts/bench.sh\`; the figures are of one machine and one hour.

$("$quadrille" bench show "${results[0]}" --head)

Each figure is a median with the lowest and the highest in brackets. What stands beside it was
measured in the same run, in turns with it where both fit into one process, and the ratio is the
median of the ratios of neighbours. Only ratios say anything on another machine. An aim that is not
reached is marked MISSED.

Not claimed: how any of this does on other processors, on more cores, or between hosts; that a
peer could not be tuned further; that an idle disk or a shared one gives the same rates. Figures
between cores swing with where a virtual machine's processors are, hence the time of a cache line
beside them.

HEAD
}
if [[ -n $page ]]; then
  { describe; "$quadrille" bench show "${results[@]}" --markdown; } >"$page.new"
  mv "$page.new" "$page"
  say "Wrote $page"
fi
say "Results in $output/results.json, after $((SECONDS - started)) s"
((${#failed[@]} == 0)) || die "these benchmarks failed: ${failed[*]}"
