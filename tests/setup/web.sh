#!/usr/bin/env bash
# Sets up what the browser tests need: Chromium, Node and npm from Debian's packages (when this user may install
# packages) and the npm packages of tests/web/package-lock.json in tests/.env/node: those
# that the explorer's page is bundled from, and those of the tests.
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
if ! cat web/package.json web/package-lock.json | cmp -s - .env/node/.installed; then
	cp web/package.json web/package-lock.json .env/node/
	# What the lockfile says, and nothing else.
	npm ci --prefix .env/node --no-audit --no-fund --loglevel=error ||
		cannot "npm could not install the packages of tests/web/package-lock.json; is the npm registry reachable?"
	cat web/package.json web/package-lock.json >.env/node/.installed
fi
