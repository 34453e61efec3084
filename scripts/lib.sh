# Shared by the scripts beside it, which source it: packages, and where things are.

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build_folder=$repository/build/release

say() {
  if [[ -t 1 ]]; then printf '\033[1m== %s\033[0m\n' "$*"; else printf '== %s\n' "$*"; fi
}
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# install_packages GROUP...: the packages of these groups in packages.txt that are missing.
install_packages() {
  local missing=() group package
  while read -r group package; do
    [[ " $* " == *" $group "* ]] || continue
    dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^.i' ||
      missing+=("$package")
  done < <(grep -v '^#' "$repository/scripts/packages.txt")
  ((${#missing[@]})) || return 0

  [[ -f /etc/debian_version ]] ||
    die "these packages of Debian 12 are missing, and this is not Debian: ${missing[*]}"
  local as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      die "root or sudo is needed to install: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  say "Installing ${#missing[@]} packages: ${missing[*]}"
  local log
  log=$(mktemp)
  {
    "${as_root[@]}" apt-get update -q &&
      "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -q --no-install-recommends "${missing[@]}"
  } >"$log" 2>&1 || { cat "$log" >&2; die "the installation failed; its output is above"; }
  rm -f "$log"
}

# build_targets [TARGET...]: configures the release preset and builds; everything without a target.
build_targets() {
  cd "$repository" || exit 1
  mkdir -p build
  say "Building in $build_folder"
  cmake --preset release >"$repository/build/configure.log" 2>&1 ||
    { cat "$repository/build/configure.log" >&2; die "the configuration failed; see above"; }
  cmake --build "$build_folder" ${1:+--target "$@"}
}
