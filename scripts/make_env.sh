#!/usr/bin/env bash
# Makes the virtual environment that the Makefile uses, or brings it up to date; does nothing, fast,
# when nothing changed.
#
#   scripts/make_env.sh EXTRAS     EXTRAS: the project's optional dependencies, such as testing,pkcs12
#   scripts/make_env.sh --remove   removes the environment
#
# The environment is .venv in the clone. Started by root, the servers run as an unprivileged user
# (uid 1500, or JBODLAB_UID), who must be able to run it: where that user cannot enter the clone, the
# environment lies in /var/lib/jbodlab and .venv is a link to it. The project itself is not copied:
# what is edited in the clone is what runs.
set -euo pipefail
umask 022

clone=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=$clone/.venv
server_uid=${JBODLAB_UID:-1500}
packages=(jbodlab broker controller storage_tool analytics pyspark_kraft_metadata admin_tool fault_injection lab)

fail() {
  echo "make env: $*" >&2
  exit 1
}

is_root() { [ "$(id -u)" = 0 ]; }

# Runs a command as the servers' user; as who we are where that is no root.
as_server() {
  if ! is_root; then
    (cd / && "$@")
  elif command -v setpriv >/dev/null; then
    (cd / && setpriv --reuid="$server_uid" --regid="$server_uid" --clear-groups "$@")
  else
    (cd / && "${python:-python3}" -c 'import os, sys
os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
os.execvp(sys.argv[2], sys.argv[2:])' "$server_uid" "$@")
  fi
}

# Prints the interpreter to use: new enough, and one that the servers' user can run.
choose_python() {
  local candidate found_old="" found_closed=""
  for candidate in ${PYTHON:-} \
    /usr/bin/python3.1[1-9] /usr/bin/python3 \
    /usr/local/bin/python3.1[1-9] /usr/local/bin/python3 \
    "$(command -v python3 || true)" "$(command -v python3.11 || true)" "$(command -v python3.12 || true)"; do
    [ -x "$candidate" ] || continue
    if ! "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      found_old=$candidate
    elif ! as_server "$candidate" -c 0 2>/dev/null; then
      found_closed=$candidate
    else
      echo "$candidate"
      return
    fi
  done
  [ -z "$found_closed" ] || fail "uid $server_uid, as whom the servers run, cannot run $found_closed:" \
    "install Python 3.11 or newer where every user can run it (apt install python3), or name one in PYTHON"
  [ -z "$found_old" ] || fail "$found_old is too old: Python 3.11 or newer is needed, name one in PYTHON"
  fail "no python3 found: Python 3.11 or newer is needed"
}

# Prints where the environment has to lie.
choose_place() {
  if ! is_root || as_server test -x "$clone" -a -r "$clone" 2>/dev/null; then
    echo "$venv"
  else
    echo "/var/lib/jbodlab/env-$(printf %s "$clone" | sha256sum | cut -c1-12)"
  fi
}

# An environment whose making was interrupted has no pip yet.
works() { [ -x "$1/bin/pip" ] && as_server "$1/bin/python" -c 'import sys; sys.exit(sys.prefix == sys.base_prefix)' 2>/dev/null; }

has_pip_for() { "$1" -c 'import ensurepip' 2>/dev/null || "$1" -m pip --version >/dev/null 2>&1 || command -v pip3 pip >/dev/null; }

create() {
  local place=$1 version
  python=$(choose_python)
  echo "creating the environment in $place with $("$python" --version)"
  mkdir -p "$(dirname "$place")"
  rm -rf "$place"
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  if ! has_pip_for "$python" && is_root && command -v apt-get >/dev/null; then
    # A fresh Debian: its python3 cannot fill an environment.
    echo "installing python$version-venv (apt-get)"
    { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q "python$version-venv"; } >/dev/null || true
  fi
  if "$python" -c 'import ensurepip' 2>/dev/null; then
    "$python" -m venv "$place"
  else
    # Debian leaves ensurepip out of python3; another pip may fill the environment all the same.
    "$python" -m venv --without-pip "$place" || fail "$python cannot make virtual environments"
    for pip in "$python -m pip" "python3 -m pip" pip3 pip; do
      $pip --python "$place/bin/python" install --quiet pip >/dev/null 2>&1 && break
    done
    if ! "$place/bin/python" -m pip --version >/dev/null 2>&1; then
      rm -rf "$place"
      fail "$python has no ensurepip, and there is no other pip: apt install python$version-venv"
    fi
  fi
  works "$place" || fail "uid $server_uid cannot run $place/bin/python; is a folder above it closed to others?"
}

# Prints a fingerprint of files, names included.
fingerprint() { (cd "$clone" && sha256sum "$@") | sha256sum | cut -c1-64; }

install_dependencies() {
  local extras=$1 wanted stamp=$venv/.jbodlab-dependencies
  wanted=$(fingerprint pyproject.toml constraints.txt)
  # Extras add up: who asks for fewer later finds all that is installed already.
  local have="" name missing=""
  if [ -f "$stamp" ] && [ "$(head -1 "$stamp")" = "$wanted" ]; then have=$(tail -n +2 "$stamp"); fi
  for name in ${extras//,/ }; do
    grep -qx "$name" <<<"$have" || missing=yes
  done
  [ -n "$missing" ] || return 0
  echo "installing what the project needs ($extras)"
  # hatchling builds the project. It is installed first, so that it too is the version that the
  # constraints name, and so that a later build needs no network.
  local install=("$venv/bin/python" -m pip install --quiet --disable-pip-version-check
    -c "$clone/constraints.txt")
  "${install[@]}" 'hatchling>=1.25'
  "${install[@]}" --no-build-isolation --editable "$clone[$extras]"
  { echo "$wanted"; { echo "$have"; tr , '\n' <<<"$extras"; } | grep . | sort -u; } >"$stamp"
}

# The servers' user may not write into the clone, and would translate every module at every start.
translate() { (cd "$clone" && "$venv/bin/python" -m compileall -q -j 0 "${packages[@]}"); }

if [ "${1:-}" = --remove ]; then
  place=$(readlink -f "$venv" || true)
  case $place in /var/lib/jbodlab/env-*) rm -rf "$place" ;; esac
  rm -rf "$venv"
  exit 0
fi
[ $# = 1 ] || fail "usage: scripts/make_env.sh EXTRAS | --remove"

# Two at a time would install into each other.
exec 9<"$clone"
flock 9 2>/dev/null || true
if ! works "$(readlink -f "$venv" 2>/dev/null || echo "$venv")"; then
  place=$(choose_place)
  create "$place"
  if [ "$place" != "$venv" ]; then
    rm -rf "$venv"
    ln -s "$place" "$venv"
  fi
fi
# By its real place: scripts carry the path of their interpreter, and the link may be closed to those
# who run them.
venv=$(readlink -f "$venv")
install_dependencies "$1"
translate
