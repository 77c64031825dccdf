#!/usr/bin/env bash
# Sets up what the browser tests need: Chromium, Node and npm from Debian's packages (when this user may install
# packages) and the pinned npm packages of tests/web/package.json in tests/.env/node.
#
#   bash tests/setup/web.sh
#
# Does nothing, in a few milliseconds, when all of it is there. Exit status: 0 it is there; 3 this machine cannot have
# it, with the reason on standard error.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cannot() {
	printf 'tests/setup/web.sh: %s\n' "$@" >&2
	exit 3
}
# missing prints the Debian packages of the programs that are not on PATH.
missing() {
	command -v chromium >/dev/null || echo chromium
	command -v node >/dev/null || echo nodejs
	command -v npm >/dev/null || echo npm
}

packages=$(missing)
if [ -n "$packages" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	echo "tests/setup/web.sh: installing Debian's" $packages >&2
	apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $packages >/dev/null ||
		echo "tests/setup/web.sh: apt-get install" $packages "failed" >&2
	packages=$(missing)
fi
[ -z "$packages" ] || cannot "not on PATH: $(echo $packages)" "on Debian: apt-get install $(echo $packages), then run this again"

mkdir -p .env/node
if ! cmp -s web/package.json .env/node/.installed; then
	cp web/package.json .env/node/package.json
	npm install --prefix .env/node --no-audit --no-fund --loglevel=error ||
		cannot "npm could not install the packages of tests/web/package.json; is the npm registry reachable?"
	cp web/package.json .env/node/.installed
fi
