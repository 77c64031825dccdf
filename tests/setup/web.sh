#!/usr/bin/env bash
# Sets up what the browser tests need: Chromium from Debian's packages (when this user may install
# packages) and the pinned npm packages of tests/web/package.json in tests/.env/node. Safe to run again.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v chromium >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null ||
		echo "Chromium could not be installed; browser tests will skip" >&2
fi
if ! command -v npm >/dev/null; then
	echo "npm is missing; browser tests will skip" >&2
	exit 0
fi
mkdir -p .env/node
if ! cmp -s web/package.json .env/node/.installed; then
	cp web/package.json .env/node/package.json
	npm install --prefix .env/node --no-audit --no-fund --loglevel=error
	cp web/package.json .env/node/.installed
fi
