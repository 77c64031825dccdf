#!/usr/bin/env bash
# Makes tests/.env/serverproxy: jupyter-server-proxy, for the test that shows the explorer through it. Needs the
# environment of tests/setup/python.sh, and PyPI.
#
#   bash tests/setup/serverproxy.sh
#
# Does nothing, in a few milliseconds, when it is there. Where it cannot be had, the reason stands on standard error,
# and its one test skips.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
env=$(dirname "$here")/.env
want=$(cksum <"$here/serverproxy.txt")

[ "$(cat "$env/serverproxy/.requirements" 2>/dev/null)" != "$want" ] || exit 0
bash "$here/python.sh" || exit 0 # it says why
"$env/venv/bin/python" -m pip install -q --disable-pip-version-check --no-input --no-deps --upgrade --target "$env/serverproxy" -r "$here/serverproxy.txt" || {
	echo "tests/setup/serverproxy.sh: pip could not install serverproxy.txt; is PyPI reachable?" >&2
	exit 0
}
printf '%s\n' "$want" >"$env/serverproxy/.requirements"
