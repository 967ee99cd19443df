#!/usr/bin/env bash
# What ./check --python runs: installs the module into a virtual environment, which is kept, and tests it with real PyTorch, real
# coordinators and real TLS. Then what of ./check needs the same libraries, if ./check has built what it is for.
# CAUSEWAY_PYTHON_ENVIRONMENT: where that environment is, instead of build-python. --environment-only: fetches it, tests nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

environment=${CAUSEWAY_PYTHON_ENVIRONMENT:-$PWD/build-python}
[[ -x $environment/bin/python ]] || python3 -m venv "$environment"
if [[ ${1:-} == --environment-only ]]; then
  # Everything but the module, which is built from the tree.
  python3 -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["test"], sep="\n")' |
    "$environment/bin/pip" install --quiet --requirement /dev/stdin
  exit
fi
"$environment/bin/pip" install --quiet ".[test]"

# Here threads of many processes share few processors: whoever waits must not spin.
export OMP_WAIT_POLICY=passive
export CAUSEWAY=$environment/bin/causeway CAUSEWAY_SOURCE=$PWD CAUSEWAY_DEADLINE_S=${CAUSEWAY_DEADLINE_S:-300}
failed=()
for test in python/tests/*_test.py; do
  echo "== $test"
  "$environment/bin/python" "$test" || failed+=("$test")
done

export CAUSEWAY_BUILD=${CAUSEWAY_BUILD:-$PWD/build-check}
export CAUSEWAY_LOGITS=$CAUSEWAY_BUILD/tests/e2e/print_logits
if [[ -x $CAUSEWAY_LOGITS ]]; then
  for test in audit hugging_face; do
    echo "== tests/e2e/${test}_test.py"
    CAUSEWAY=$CAUSEWAY_BUILD/apps/causeway "$environment/bin/python" "tests/e2e/${test}_test.py" || failed+=("tests/e2e/${test}_test.py")
  done
else
  echo "Not run: the auditor's and Hugging Face's tests, which need what ./check builds"
fi
((${#failed[@]} == 0)) || { echo "Failed: ${failed[*]}" >&2; exit 1; }
