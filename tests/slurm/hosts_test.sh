#!/bin/bash
# Copyright The Quadrille Authors
# SPDX-License-Identifier: Apache-2.0
# Ranks on several hosts, made of network namespaces on this machine:
#   hosts_test.sh hostfile|slurm QUADRILLE WORK_FOLDER
# hostfile: mpirun takes them to four hosts; slurm: srun does, in an allocation of a Slurm of four
# nodes. Both must train to the losses of the same ranks as threads.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/hosts.sh"
case_name=$1 quadrille=$(realpath "$2") work=$(realpath -m "$3")

probe_hosts
if [[ $case_name == slurm ]]; then
  for program in slurmctld slurmd munged salloc srun; do
    PATH=$PATH:/usr/sbin command -v "$program" > /dev/null || skip "$program is not installed"
  done
fi
exec 9> /run/quadrille-hosts.lock
flock -w 250 9 || skip "another test holds the hosts"

export OMP_NUM_THREADS=1 OMPI_MCA_plm_rsh_agent=$hosts_folder/on_host
rm -rf "$work"
mkdir -p "$work"
cd "$work" || exit 1
if [[ $case_name == slurm ]]; then source "$here/slurm.sh"; fi
clean_up() {
  if [[ $case_name == slurm ]]; then slurm_down; fi
  hosts_down
}
trap clean_up EXIT
hosts_up

for ((i = 0; i < 400; i++)); do echo "the light was good and the day was on the earth $i"; done > text.txt
cat > job.json << 'END'
{
  "name": "hosts",
  "model": {"layers": 2, "hidden": 32, "heads": 4, "context": 32},
  "data": {"train": "text.txt"},
  "training": {"sequence": 32, "global_batch": 8, "steps": 12, "learning_rate": 0.003},
  "parallel": {"data": 4},
  "communication": {"timeout": 30},
  "checkpoint": {"every": 6}
}
END

# launch_on_hosts ARGUMENTS...: quadrille launch as a user of this case would call it.
launch_on_hosts() {
  if [[ $case_name == slurm ]]; then
    on_host "$(host_name 0)" "cd $work; salloc -Q -N $host_count -n $host_count $quadrille launch $*"
  else
    on_host "$(host_name 0)" "cd $work; $quadrille launch --hostfile hosts $*"
  fi
}
for ((i = 0; i < host_count; i++)); do echo "$(host_name "$i") slots=1"; done > hosts
if [[ $case_name == slurm ]]; then slurm_up; fi

"$quadrille" launch job.json --run-dir threads > threads.out 2>&1 || fail "threads: $(cat threads.out)"

launch_on_hosts job.json --run-dir run > run.out 2>&1 || fail "$case_name: $(cat run.out run/logs/*)"
[[ $(losses run/metrics.jsonl) == "$(losses threads/metrics.jsonl)" ]] ||
  fail "other losses than threads: $(paste <(losses run/metrics.jsonl) <(losses threads/metrics.jsonl))"
[[ $(losses run/metrics.jsonl | wc -l) == 12 ]] || fail "not every step has a row"
for ((i = 0; i < host_count; i++)); do
  grep -q "of 4 on $(host_name "$i")," run/logs/rank-*.log || fail "no rank ran on $(host_name "$i")"
done
"$quadrille" checkpoint diff run threads > diff.out 2>&1 || fail "$(cat diff.out)"
echo "4 ranks on 4 hosts train to the losses and the weights of 4 threads"

# A rank that dies takes the others with it, within seconds; then the run goes on from its checkpoint.
sed 's/"steps": 12/"steps": 100000/' job.json > long.json
launch_on_hosts long.json --run-dir killed > killed.out 2>&1 &
launch=$!
for ((i = 0; i < 600; i++)); do
  [[ $(wc -l < killed/metrics.jsonl) -ge 12 ]] 2> /dev/null && break
  sleep 0.1
done
victim=$(sed -n 's/.*rank 2 of 4 on .* pid \([0-9]*\),.*/\1/p' killed/logs/rank-0002.log)
[[ $victim ]] || fail "rank 2 did not start: $(cat killed.out killed/logs/*)"
SECONDS=0
kill -9 "$victim"
wait $launch
code=$?
[[ $code == 3 ]] || fail "a killed rank ends the launch with $code: $(cat killed.out)"
((SECONDS <= 10)) || fail "it took $SECONDS s to stop the other ranks"
grep -q "rank 2" killed.out || fail "the lost rank is not named: $(cat killed.out)"
echo "a killed rank is named and ends the run after $SECONDS s"
steps=$(($(wc -l < killed/metrics.jsonl) + 6))
launch_on_hosts job.json --run-dir killed --resume required --set training.steps=$steps \
  > resumed.out 2>&1 || fail "it does not resume: $(cat resumed.out killed/logs/*)"
[[ $(wc -l < killed/metrics.jsonl) == "$steps" ]] || fail "the resumed run has not $steps rows"
echo "it goes on from its checkpoint"

if [[ $case_name == slurm ]]; then slurm_cases; fi
exit 0
