#!/bin/bash
# Builds Quadrille, trains a small GPT-2 on the King James text over two ranks, and lets it write.
#   scripts/demo.sh            installs what is missing, builds, trains (about five minutes), samples;
#                              once the run is finished, goes straight to the samples
#   scripts/demo.sh --again    trains anew
#   scripts/demo.sh --help     this text
# An interrupted demo continues where it was when it is started again.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

job=configs/demo.json
run=runs/demo
text=data/kjv.txt

case ${1:-} in
  '') again=no ;;
  --again) again=yes ;;
  --help | -h) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
  *) die "unknown argument \"$1\"; see scripts/demo.sh --help" ;;
esac
(($# <= 1)) || die "one argument at most; see scripts/demo.sh --help"

cd "$repository"
install_packages build text
build_targets quadrille_launcher
quadrille=$build_folder/bin/quadrille

if [[ ! -s $text ]]; then
  say "Extracting the King James text to $text"
  mkdir -p data
  bible -f 'Gen1:1-Rev22:21' >"$text.partial"
  mv "$text.partial" "$text"
fi

# The job that the finished run was made from, kept beside it: another job is another run.
finished=$run/demo-finished.json
[[ $again == no ]] || rm -rf "$run"
if ! cmp -s "$job" "$finished"; then
  say "Training: $job over 2 ranks into $run (Ctrl-C saves and stops; start again to continue)"
  code=0
  "$quadrille" launch "$job" --ranks 2 --run-dir "$run" --resume auto || code=$?
  if ((code == 75)); then
    echo "Stopped, and the state is saved: scripts/demo.sh continues from there."
  fi
  ((code == 0)) || exit "$code"
  cp "$job" "$finished"
fi

say "What the model writes after \"In the beginning\""
"$quadrille" generate "$run" --prompt "In the beginning" --tokens 300 --samples 3 \
  --temperature 0.8 --top-k 40 --seed 1
echo
echo "Next: $quadrille generate $run --prompt \"And God said\"   (all results: $run)"
