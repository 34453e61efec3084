#!/bin/bash
# Copyright The Quadrille Authors
# SPDX-License-Identifier: Apache-2.0
# Runs a rank program and kills it with signal 9 once its run has as many rows of metrics as
# KILL_AFTER says.
"$@" &
child=$!
while kill -0 $child 2> /dev/null; do
  rows=$(wc -l < "$QUADRILLE_RUN_DIRECTORY/metrics.jsonl" 2> /dev/null || echo 0)
  if [ "$rows" -ge "$KILL_AFTER" ]; then kill -9 $child; fi
  sleep 0.01
done
wait $child
