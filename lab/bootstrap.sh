#!/usr/bin/env bash
# The virtual environment from requirements.lock; does nothing when it is up to date.
set -euo pipefail
cd "$(dirname "$0")/.."

python=""
for name in python3.13 python3.12 python3.11 python3; do
  if command -v "$name" >/dev/null &&
    "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    python=$name
    break
  fi
done
if [ -z "$python" ]; then
  echo "railyard: Python 3.11 or newer is needed, and none is on PATH." >&2
  exit 2
fi

want=$( (cat requirements.lock pyproject.toml; "$python" --version; pwd) | sha256sum | cut -d' ' -f1)
stamp=.venv/.railyard-stamp
if [ "$(cat "$stamp" 2>/dev/null || true)" = "$want" ]; then
  exit 0
fi

log=$(mktemp)
needs=""
trap 'rm -f "$log"' EXIT
quietly() {
  if ! "$@" >"$log" 2>&1; then
    echo "railyard: '$*' failed:" >&2
    tail -n 20 "$log" >&2
    if [ -n "$needs" ]; then echo "railyard: $needs" >&2; fi
    exit 1
  fi
}

echo "railyard: making the virtual environment .venv (about a minute, once)"
if ! "$python" -c 'import ensurepip' 2>/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    quietly apt-get update
    quietly apt-get install -y python3-venv
  else
    echo "railyard: Python has no venv; install it: apt-get install python3-venv" >&2
    exit 2
  fi
fi
quietly "$python" -m venv .venv
echo "railyard: installing the pinned packages of requirements.lock"
needs="the packages come from pip's index; check that this machine reaches it (pip config list), then run it again"
quietly .venv/bin/python -m pip install --disable-pip-version-check --require-hashes -r requirements.lock
needs=""
# compat: the whole clone is importable, the lab too, which the wheel has not
quietly .venv/bin/python -m pip install --disable-pip-version-check --no-deps --no-build-isolation \
  --config-settings editable_mode=compat -e .
echo "$want" >"$stamp"
