#!/usr/bin/env bash
# Makes tests/.env/venv: the pinned Python environment of the tests, with Jupyter and ptxas in it.
#
#   bash tests/setup/python.sh
#
# Does nothing, in a few milliseconds, when the environment already fits requirements.txt. Needs Python >= 3.11 and PyPI.
# Exit status: 0 it is there; 3 this machine cannot have it, with the reason on standard error.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
env=$(dirname "$here")/.env
venv=$env/venv
want=$(cksum <"$here/requirements.txt")

fits() { [ "$(cat "$venv/.requirements" 2>/dev/null)" = "$want" ] && [ -x "$venv/bin/python" ]; }
cannot() {
	printf 'tests/setup/python.sh: %s\n' "$@" >&2
	exit 3
}

fits && exit 0
mkdir -p "$env"
if command -v flock >/dev/null; then
	exec 9>"$env/venv.lock"
	flock 9
	fits && exit 0
fi

python=${PYTHON:-python3}
command -v "$python" >/dev/null || cannot "no $python on PATH" "on Debian: apt-get install python3 python3-venv"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
	cannot "$("$python" --version) is too old, needed is 3.11; set PYTHON to a newer one"

works() { "$venv/bin/python" -m pip --version >/dev/null 2>&1; }
# make tries one way to make the environment; what came of it shows in works.
make() {
	rm -rf "$venv"
	"$python" "$@" "$venv" >/dev/null 2>&1 && works
}
if ! works && ! make -m venv && ! make -m virtualenv; then
	# Debian's Python comes without venv or, where venv is there, without the pip to put into it.
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		echo "tests/setup/python.sh: installing Debian's python3-venv" >&2
		apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y python3-venv >/dev/null ||
			cannot "apt-get install python3-venv failed"
		make -m venv || cannot "$python -m venv still fails with Debian's python3-venv:" "$("$python" -m venv "$venv" 2>&1 | tail -n 5)"
	else
		cannot "$python has neither a working venv nor virtualenv" "on Debian: apt-get install python3-venv, then run this again"
	fi
fi
"$venv/bin/python" -m pip install -q --disable-pip-version-check --no-input -r "$here/requirements.txt" ||
	cannot "pip could not install requirements.txt; is PyPI reachable?"
printf '%s\n' "$want" >"$venv/.requirements"
