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
export CAUSEWAY_SOURCE=$PWD CAUSEWAY_DEADLINE_S=${CAUSEWAY_DEADLINE_S:-300}
export CAUSEWAY_BUILD=${CAUSEWAY_BUILD:-$PWD/build-check}
export CAUSEWAY_LOGITS=$CAUSEWAY_BUILD/tests/e2e/print_logits
results=$(mktemp --directory)
export environment results
trap 'rm -rf "$results"' EXIT

# FILE: as many run at a time as there are processors, as each waits much. What one said is printed when it has ended.
run_test() {
  local log=$results/${1//\//.} program=$environment/bin/causeway
  [[ $1 != tests/e2e/* ]] || program=$CAUSEWAY_BUILD/apps/causeway
  { echo "== $1"; CAUSEWAY=$program "$environment/bin/python" "$1"; } >"$log" 2>&1 || echo "$1" >>"$results/failed"
  flock "$results" cat "$log"
}
export -f run_test

tests=(python/tests/*_test.py)
if [[ -x $CAUSEWAY_LOGITS ]]; then
  tests+=(tests/e2e/{audit,hugging_face}_test.py)
else
  echo "Not run: the auditor's and Hugging Face's tests, which need what ./check builds"
fi
printf '%s\n' "${tests[@]}" | xargs --max-procs "$(nproc)" --replace bash -c 'run_test "$1"' bash {}
[[ ! -e $results/failed ]] || { echo "Failed: $(paste -sd ' ' "$results/failed")" >&2; exit 1; }
