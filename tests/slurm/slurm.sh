# Copyright The Quadrille Authors
# SPDX-License-Identifier: Apache-2.0
# Sourced by hosts_test.sh: a Slurm whose nodes are the hosts of hosts.sh, with one daemon each.

slurm_folder=$work/slurm
export SLURM_CONF=$slurm_folder/slurm.conf
export PATH=$PATH:/usr/sbin

slurm_configuration() {
  cat << END
ClusterName=quadrilletest
SlurmctldHost=$(host_name 0)
SlurmctldPort=16817
SlurmdPort=16818
AuthType=auth/munge
AuthInfo=socket=$slurm_folder/munge/socket
SlurmUser=root
SlurmdUser=root
MailProg=/bin/true
StateSaveLocation=$slurm_folder/state
SlurmdSpoolDir=$slurm_folder/spool/%n
SlurmctldPidFile=$slurm_folder/run/slurmctld.pid
SlurmdPidFile=$slurm_folder/run/slurmd-%n.pid
SlurmctldLogFile=$slurm_folder/log/slurmctld.log
SlurmdLogFile=$slurm_folder/log/slurmd-%n.log
# PMIx keeps a folder per job here; the daemons share a disk, so each needs its own.
TmpFS=$slurm_folder/tmp/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
ReturnToService=2
KillWait=3
SchedulerParameters=sched_interval=1,bf_interval=5
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
NodeName=$host_prefix[0-$((host_count - 1))] CPUs=4 RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
}

slurm_up() {
  local i
  mkdir -p "$slurm_folder"/{state,spool,log,run,munge,tmp}
  slurm_configuration > "$SLURM_CONF"
  on_host "$(host_name 0)" "srun --mpi=list" 2>&1 | grep -q pmix || skip "this Slurm has no PMIx"
  head -c 1024 /dev/urandom > "$slurm_folder/munge/key"
  chmod 400 "$slurm_folder/munge/key"
  chmod 700 "$slurm_folder/munge"
  munged --force --key-file="$slurm_folder/munge/key" --socket="$slurm_folder/munge/socket" \
    --pid-file="$slurm_folder/munge/munged.pid" --log-file="$slurm_folder/munge/log" \
    --seed-file="$slurm_folder/munge/seed" 2> "$slurm_folder/munge/start.log" ||
    skip "munged does not start: $(cat "$slurm_folder/munge/start.log")"
  on_host "$(host_name 0)" "slurmctld -c" || skip "slurmctld does not start"
  for ((i = 0; i < host_count; i++)); do
    mkdir -p "$slurm_folder"/{spool,tmp}/"$(host_name "$i")"
    on_host "$(host_name "$i")" "slurmd -N $(host_name "$i")" ||
      skip "slurmd does not start: $(tail -3 "$slurm_folder/log/slurmd-$(host_name "$i").log")"
  done
  for ((i = 0; i < 200; i++)); do
    [[ $(on_host "$(host_name 0)" "sinfo -h -N -o %T" | grep -c idle) == "$host_count" ]] && return
    sleep 0.1
  done
  skip "the nodes do not come up: $(tail -3 "$slurm_folder"/log/*)"
}

slurm_down() {
  local file
  [[ -d $slurm_folder/run ]] || return
  # shellcheck disable=SC2046  # one word a job
  on_host "$(host_name 0)" scancel -Q $(on_host "$(host_name 0)" "squeue -h -o %i") 2> /dev/null
  for file in "$slurm_folder"/run/*.pid "$slurm_folder/munge/munged.pid"; do
    [[ -s $file ]] && kill "$(cat "$file")" 2> /dev/null
  done
  sleep 0.5
}

# What holds for Slurm alone.
slurm_cases() {
  launch_on_hosts job.json --run-dir printed --print > printed.out 2>&1 || fail "$(cat printed.out)"
  grep -q -- "srun --mpi=pmix --kill-on-bad-exit=1 .*--ntasks=4 .*rank" printed.out ||
    fail "--print does not show srun: $(cat printed.out)"
  echo "--print shows srun's command"

  launch_on_hosts job.json --run-dir wide --ranks 8 > wide.out 2>&1
  [[ $? == 2 ]] || fail "8 ranks in 4 tasks are not refused: $(cat wide.out)"
  grep -q "8 ranks do not fit the 4 tasks" wide.out || fail "$(cat wide.out)"
  echo "more ranks than the allocation has tasks are refused"

  # A program that PMIx does not reach: each of its processes believes itself alone.
  cat > alone.sh << END
#!/bin/bash
for name in \$(compgen -e | grep -E '^(PMIX|PMI|OMPI|SLURM)'); do unset "\$name"; done
exec $quadrille rank
END
  chmod +x alone.sh
  launch_on_hosts job.json --run-dir alone -- ./alone.sh > alone.out 2>&1
  code=$?
  [[ $code != 0 ]] || fail "ranks that are alone train all the same: $(cat alone.out)"
  grep -q "srun needs PMIx" alone.out || fail "no hint at PMIx: $(cat alone.out)"
  echo "ranks that do not find each other end the run with a hint"

  on_host "$(host_name 0)" "cd $work; srun -Q -N 2 -n 2 $quadrille launch job.json --run-dir many" > many.out 2>&1
  [[ $? == 2 ]] || fail "launchers that srun multiplied are not refused: $(cat many.out)"
  grep -q "srun has started 2 launchers" many.out || fail "$(cat many.out)"
  echo "a launch that srun multiplied is refused"
}
