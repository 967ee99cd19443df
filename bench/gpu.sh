#!/usr/bin/env bash
# Everything that needs a GPU, on a machine that has only CUDA 13, NCCL and cuDNN: no compiler, no libraries of ours.
#
#   bench/gpu.sh pack DIRECTORY [ARCHITECTURES]   here: builds the GPU's tests and benchmarks (for 90-real, that is
#                                                 H100 and H200, unless told otherwise), and copies them there,
#                                                 stripped, with the libraries that are not CUDA's
#   DIRECTORY/gpu.sh run [--sanitize]             there: runs all; --sanitize: the tests under compute-sanitizer too
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bytes_max=$((60 << 20))

usage() {
  sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
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
  local programs program library
  programs=$(cd "$build" && ninja -t targets all | sed -n '/^cmake_/d; s/^\([a-z_]*_gpu_test\|bench_[a-z_]*_gpu\):.*/\1/p' | sort -u)
  # shellcheck disable=SC2086  # names, one each
  cmake --build "$build" --target $programs
  mkdir -p "$directory/lib"
  for program in $programs; do
    strip -o "$directory/$program" "$(find "$build" -type f -name "$program")"
    for library in $(libraries_of "$directory/$program"); do strip -o "$directory/lib/$(basename "$library")" "$library"; done
  done
  cp "$here/gpu.sh" "$here/train_step_torch.py" "$directory/"
  local bytes
  bytes=$(du -sb "$directory" | cut -f1)
  echo "$directory: $((bytes >> 20)) MiB"
  ((bytes <= bytes_max)) || { echo "gpu.sh: more than $((bytes_max >> 20)) MiB" >&2; exit 1; }
}

# Every one runs, whatever the others did.
run() {
  local sanitize=no failed=0 program codec
  [[ ${1:-} == --sanitize ]] && sanitize=yes
  export LD_LIBRARY_PATH=$here/lib:/usr/local/cuda/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || { echo "gpu.sh: no GPU" >&2; exit 1; }
  for program in "$here"/*_test; do
    echo "== $(basename "$program")"
    "$program" --gtest_brief=1 || failed=1
    [[ $sanitize == no ]] || compute-sanitizer --error-exitcode 1 "$program" --gtest_brief=1 || failed=1
  done
  for program in "$here"/bench_*_gpu; do
    echo "== $(basename "$program")"
    "$program" || failed=1
  done
  echo "== bench_outer_gpu --offload"
  "$here/bench_outer_gpu" --offload || failed=1
  for codec in dense:int8,block=128 topk:k=64; do
    echo "== bench_train_step_gpu --round $codec"
    "$here/bench_train_step_gpu" --round "$codec" || failed=1
  done
  echo "== bench_train_step_gpu --plain-attention"
  "$here/bench_train_step_gpu" --plain-attention --steps 10 || failed=1
  echo "== train_step_torch.py"
  if python3 -c 'import torch' 2>/dev/null; then python3 "$here/train_step_torch.py" || failed=1; else echo "not run: no PyTorch"; fi
  return $failed
}

case ${1:-} in
  pack) [[ $# == 2 || $# == 3 ]] || usage 2; pack "${@:2}" ;;
  run) run "${@:2}" ;;
  -h | --help) usage 0 ;;
  *) usage 2 ;;
esac
