#!/usr/bin/env bash
# Everything that needs a GPU, on a machine that has only CUDA 13, NCCL and cuDNN: no compiler, no libraries of ours.
#
#   bench/gpu.sh pack DIRECTORY [ARCHITECTURES]   here: builds the GPU's tests and benchmarks (for 90-real, that is
#                                                 H100 and H200, unless told otherwise), and copies them there,
#                                                 stripped, with the libraries that are not CUDA's
#   DIRECTORY/gpu.sh run [--sanitize] [--without-cudnn]
#                                                 there: runs all, the figures first; --sanitize: the tests under
#                                                 compute-sanitizer too; --without-cudnn: measure without it
#   DIRECTORY/gpu.sh profile TABLE.csv            there: the time of every kernel of one step, by Nsight Compute
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
  sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
  exit "$1"
}

# The libraries of a program that a machine with CUDA does not bring: neither the C library's nor CUDA's.
libraries_of() {
  ldd "$1" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' |
    grep -vE '/(ld-linux|lib(c|m|dl|rt|pthread|cuda|cudart|cublas|cublasLt|cudnn|nccl|nvrtc))[.-]' || true
}

pack() {
  local directory=$1 architectures=${2:-90-real} build=$here/../build-gpu
  # An object for each source: programs take what they use along, and not what happens to be compiled with it (oneDNN).
  cmake --preset cuda -S "$here/.." -B "$build" -DCMAKE_UNITY_BUILD=OFF -DCMAKE_CUDA_ARCHITECTURES="$architectures" \
    -DCMAKE_EXE_LINKER_FLAGS="-static-libstdc++ -static-libgcc -Wl,--as-needed"
  grep -q '^CUDNN_FRONTEND_INCLUDE_DIR:PATH=/' "$build/CMakeCache.txt" || {
    echo "gpu.sh: no headers of cuDNN's frontend: the kit would measure the plain attention; run ./check once, which fetches them" >&2
    exit 1
  }
  local programs program library
  programs=causeway\ $(cd "$build" && ninja -t targets all | sed -n '/^cmake_/d; s/^\([a-z_]*_gpu_test\|bench_[a-z_]*_gpu\):.*/\1/p' | sort -u)
  # shellcheck disable=SC2086  # names, one each
  cmake --build "$build" --target $programs
  mkdir -p "$directory/lib"
  for program in $programs; do
    strip -o "$directory/$program" "$(find "$build" -type f -name "$program")"
    for library in $(libraries_of "$directory/$program"); do strip -o "$directory/lib/$(basename "$library")" "$library"; done
  done
  cp "$here/gpu.sh" "$here/train_step_torch.py" "$here"/../tests/e2e/{gpu_double_test,run_by_hand,harness}.py "$directory/"
  du -sh "$directory"
}

# The folder of a library: CUDA's own folder, the system's, or a pip package's (nvidia/cudnn/lib); nothing if there is none.
folder_of() {
  local folder
  for folder in /usr/local/cuda/lib64 /usr/lib/x86_64-linux-gnu $(python3 -c 'import glob, sys
for path in sys.path: print(*glob.glob(path + "/nvidia/*/lib"))' 2>/dev/null || true); do
    if [[ -e $folder/$1 ]]; then echo "$folder"; return; fi
  done
}

# part SECONDS PROGRAM...: every part runs, whatever the others did, and none longer than its limit.
part() {
  local limit=$1
  shift
  echo "== $(basename "$1") ${*:2}"
  timeout --kill-after=5 "$limit" env LD_LIBRARY_PATH="$libraries" "$@" || { echo "gpu.sh: exit $?: $1"; failed=1; }
}

# tests SECONDS PROGRAM...: a part of which passed tests are not told. One that does not end is named last. Threads that wait for
# each other do not spin, as other programs may fill the cores.
tests() {
  { OMP_WAIT_POLICY=passive part "$@" --gtest_filter="$filter"; [[ $failed == 0 ]]; } | awk '
    /^\[ RUN/ { begun = $0 "\n"; next }
    /^\[ +OK/ { begun = ""; next }
    /^\[---|^$/ { next }
    { printf "%s%s\n", begun, $0; begun = ""; fflush() }
    END { printf "%s", begun }' || failed=1
}

# Sets `libraries`, the folders to find CUDA's libraries in, and `filter`, the tests that can run with them.
find_libraries() {
  local plain=$1 name folder
  libraries=$here/lib filter="*"
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || { echo "gpu.sh: no GPU" >&2; exit 1; }
  for name in libcudart.so.13 libcublasLt.so.13 libcudnn.so.9 libnccl.so.2; do
    folder=$(folder_of "$name")
    echo "$name: ${folder:-not found}"
    [[ -z $folder || :$libraries: == *:$folder:* ]] || libraries+=:$folder
    [[ -n $folder || $name != libnccl* ]] || { filter="-*Nccl*"; echo "tests of NCCL: not run"; }
    [[ -n $folder || $name != libcudnn* || $plain == yes ]] || {
      echo "gpu.sh: no cuDNN: benchmarks would measure the plain attention; install it, or say --without-cudnn" >&2
      exit 1
    }
  done
  libraries+=${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

run() {
  local sanitize=no plain=no failed=0 libraries filter program codec tool products options
  while (($#)); do
    case $1 in --sanitize) sanitize=yes ;; --without-cudnn) plain=yes ;; *) usage 2 ;; esac
    shift
  done
  find_libraries $plain
  for program in "$here"/bench_*_gpu; do part 40 "$program"; done
  products=$(mktemp -d)/products
  for options in "--time-products $products" "--time-products $products"; do
    # shellcheck disable=SC2086  # words; the second reads what the first kept
    part 60 "$here/bench_train_step_gpu" $options
  done
  part 30 "$here/bench_outer_gpu" --offload
  part 150 "$here/bench_train_step_gpu" --plain-attention --steps 10  # some 60 to 100 s by estimate
  # PyTorch brings its own libraries.
  echo "== train_step_torch.py"
  if ! python3 -c 'import torch' 2>/dev/null; then echo "not run: no PyTorch"
  else timeout --kill-after=5 120 python3 "$here/train_step_torch.py" || failed=1; fi
  for program in "$here"/*_test; do tests 120 "$program"; done
  for codec in dense:int8,block=128 topk:k=64; do part 30 "$here/bench_train_step_gpu" --round "$codec"; done
  CAUSEWAY=$here/causeway CAUSEWAY_ON_GPU=$here/causeway part 120 python3 "$here/gpu_double_test.py"
  [[ $sanitize == no ]] || for program in "$here"/*_test; do
    for tool in memcheck racecheck synccheck; do
      tests 90 compute-sanitizer --tool "$tool" --error-exitcode 1 "$program"
    done
  done
  return $failed
}

# Without recorded steps, which would be one kernel to the tool. The table also has the products of the rate, before the first Embed.
profile() {
  local libraries filter failed=0
  find_libraries no
  part 300 ncu --clock-control none --metrics gpu__time_duration.sum --csv --log-file "$1" \
    "$here/bench_train_step_gpu" --no-graphs --warm-up 1 --steps 1
  return $failed
}

case ${1:-} in
  pack) [[ $# == 2 || $# == 3 ]] || usage 2; pack "${@:2}" ;;
  run) run "${@:2}" ;;
  profile) [[ $# == 2 ]] || usage 2; profile "$2" ;;
  -h | --help) usage 0 ;;
  *) usage 2 ;;
esac
