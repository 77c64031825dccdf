#!/usr/bin/env bash
# Sets up a C compiler, from Debian's packages when this user may install packages: the tests build a stand-in for the
# NVIDIA driver with it, which fails in every way that a driver can.
#
#   bash tests/setup/cc.sh
#
# Exit status: 0 it is there; 3 this machine cannot have it, with the reason on standard error.
set -euo pipefail

command -v cc >/dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	echo "tests/setup/cc.sh: installing Debian's gcc" >&2
	apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends gcc libc6-dev >/dev/null || true
fi
command -v cc >/dev/null || { echo "tests/setup/cc.sh: no cc on PATH; on Debian: apt-get install gcc libc6-dev" >&2; exit 3; }
