// The library of kernels that the host plays: nothing else of it is seen outside, as its inline
// functions are compiled otherwise than the program's.
#include "intra/cuda/jobs/kernels.h"

extern "C" {
__attribute__((visibility("default"))) void causeway_play_step_job(
    const causeway::intra::cuda::Job& job, cudaStream_t stream) {
  causeway::intra::cuda::launch(job, stream);
}
__attribute__((visibility("default"))) void causeway_play_outer_job(
    const causeway::intra::cuda::OuterJob& job, cudaStream_t stream) {
  causeway::intra::cuda::launch(job, stream);
}
}
