#!/usr/bin/env bash
# What ./check --python runs: installs the module into a virtual environment under build-python, which is kept, and tests it
# with real PyTorch, real coordinators and real TLS.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

environment=$PWD/build-python
[[ -x $environment/bin/python ]] || python3 -m venv "$environment"
"$environment/bin/pip" install --quiet ".[test]"

export CAUSEWAY=$environment/bin/causeway CAUSEWAY_SOURCE=$PWD CAUSEWAY_DEADLINE_S=${CAUSEWAY_DEADLINE_S:-300}
for test in python/tests/*_test.py; do
  "$environment/bin/python" "$test"
done
