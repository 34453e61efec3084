# Copyright The Quadrille Authors
# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests beside it: four hosts on this machine. Each is a network namespace on one
# bridge; what runs on it has its own host name, /etc/hosts and /dev/shm, so that it is as far from
# the others as another machine, but for the disk.

host_count=4
host_prefix=quadrillehost
subnet=10.77.93
hosts_folder=/run/quadrille-hosts

# Prints why and ends with the code that ctest counts as a skip.
skip() {
  echo "skipped: $*"
  exit 77
}

host_name() { echo "$host_prefix$1"; }

probe_hosts() {
  [[ $EUID == 0 ]] || skip "network namespaces need root"
  local program
  for program in ip nsenter unshare mpirun; do
    command -v "$program" > /dev/null || skip "$program is not installed"
  done
  local probe=${host_prefix}probe
  ip netns del "$probe" 2> /dev/null
  ip netns add "$probe" 2> /dev/null || skip "this kernel makes no network namespaces"
  local can=yes
  ip -n "$probe" link add bridge0 type bridge 2> /dev/null || can=
  ip -n "$probe" link add veth0 type veth peer name veth1 2> /dev/null || can=
  unshare --uts --mount --propagation private true 2> /dev/null || can=
  ip netns del "$probe"
  [[ $can ]] || skip "this kernel has no bridges, veth pairs or host names of a process's own"
}

hosts_down() {
  local i
  for ((i = 0; i < host_count; i++)); do ip netns del "$(host_name "$i")" 2> /dev/null; done
  ip netns del "${host_prefix}switch" 2> /dev/null
  rm -rf "$hosts_folder"
}

hosts_up() {
  hosts_down
  local switch=${host_prefix}switch i host
  mkdir -p "$hosts_folder"
  ip netns add "$switch"
  ip -n "$switch" link add bridge0 type bridge
  ip -n "$switch" link set bridge0 up
  echo "127.0.0.1 localhost" > "$hosts_folder/hosts"
  for ((i = 0; i < host_count; i++)); do
    host=$(host_name "$i")
    ip netns add "$host"
    ip link add eth0 netns "$host" type veth peer name "port$i" netns "$switch"
    ip -n "$switch" link set "port$i" master bridge0 up
    ip -n "$host" addr add "$subnet.$((i + 1))/24" dev eth0
    ip -n "$host" link set eth0 up
    ip -n "$host" link set lo up
    echo "$subnet.$((i + 1)) $host" >> "$hosts_folder/hosts"
  done
  # Called as ssh would be: HOST COMMAND... A host has one of this machine's cores, in turn.
  cat > "$hosts_folder/on_host" << 'END'
#!/bin/bash
host=$1
shift
exec nsenter --net=/run/netns/"$host" unshare --uts --mount --propagation private bash -c '
  hostname "$0"
  mount --bind /run/quadrille-hosts/hosts /etc/hosts
  mount -t tmpfs tmpfs /dev/shm
  cores=$(nproc)
  taskset -c -p $((${0: -1} % cores)) $$ > /dev/null
  eval "$1"' "$host" "$*"
END
  chmod +x "$hosts_folder/on_host"
}

on_host() { "$hosts_folder/on_host" "$@"; }

fail() {
  echo "FAILED: $*"
  exit 1
}

# losses METRICS: the loss of each step, as it was written.
losses() { sed -E 's/.*"loss":([^,}]*).*/\1/' "$1"; }
