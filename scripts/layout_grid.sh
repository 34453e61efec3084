#!/bin/bash
# Compares every layout of the grid with one rank by `quadrille verify`, on models that nothing
# divides.
#   scripts/layout_grid.sh [--seconds N] [--no-build]
# The grid: data 1-3 x tensor 1-3 x sequence x sharding 0-3 x micro-batch 1-2 x bucket, at most 12
# ranks, for a GPT-2 with a tied head and a Llama with grouped queries and an untied one. It stops
# after N seconds (default 1200) and says how far it came; about 600 layouts, half a second each.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

seconds=1200 build=1
while (($#)); do
  case $1 in
    --help | -h) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --seconds) seconds=${2:?--seconds needs a number}; shift ;;
    --no-build) build=0 ;;
    *) die "unknown argument $1; see --help" ;;
  esac
  shift
done
quadrille=${QUADRILLE:-$build_folder/bin/quadrille}
((build)) && build_targets quadrille_launcher
[[ -x $quadrille ]] || die "$quadrille is not built"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for ((i = 0; i < 400; ++i)); do printf 'line %d of a text to learn from.\n' "$i"; done >"$work/text"
job() {  # job NAME MODEL
  printf '{"name": "%s", "model": {%s, "vocab": 259, "context": 13, "dropout": 0.1},
"data": {"train": "text"}, "training": {"sequence": 13, "global_batch": 12, "steps": 5, "clip": 0.5,
"learning_rate": 0.003, "seed": 7}}\n' "$1" "$2" >"$work/$1.json"
}
job gpt2 '"family": "gpt2", "layers": 2, "hidden": 40, "heads": 5, "ffn": 71'
job llama '"family": "llama", "layers": 2, "hidden": 37, "heads": 4, "kv_heads": 2,
"head_dimension": 6, "ffn": 53, "tie_embeddings": false'

run=0 bad=0
one_layout() {  # one_layout MODEL BUCKET LAYOUT
  if ((SECONDS > seconds)); then
    echo "stopped after $seconds s: $run layouts compared, $bad differ"
    exit $((bad > 0))
  fi
  run=$((run + 1))
  "$quadrille" verify "$work/$1.json" --set "communication.bucket=$2" --steps 5 \
    --layout data=1 --layout "$3" >"$work/out" 2>&1 && return
  bad=$((bad + 1))
  echo "$1, bucket $2, $3: $(tail -1 "$work/out")"
}

for model in gpt2 llama; do
  for data in 1 2 3; do
    for tensor in 1 2 3; do
      for sequence in 0 1; do
        ((sequence == 1 && tensor == 1)) && continue
        for sharding in 0 1 2 3; do
          ((sharding > 0 && data == 1)) && continue
          for micro_batch in 1 2; do
            for bucket in 1024 4194304; do
              one_layout $model $bucket \
                "data=$data,tensor=$tensor,sequence=$sequence,sharding=$sharding,micro_batch=$micro_batch"
            done
          done
        done
      done
    done
  done
done
echo "$run layouts compared with one rank, $bad differ"
exit $((bad > 0))
