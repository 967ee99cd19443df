// Launches of a program whose kernels the host plays (exports.cc).
#include "intra/cuda/jobs/kernels.h"

extern "C" {
void causeway_play_step_job(const causeway::intra::cuda::Job& job, cudaStream_t stream);
void causeway_play_outer_job(const causeway::intra::cuda::OuterJob& job, cudaStream_t stream);
}

namespace causeway::intra::cuda {

void launch(const Job& job, cudaStream_t stream) {
  causeway_play_step_job(job, stream);
}
void launch(const OuterJob& job, cudaStream_t stream) {
  causeway_play_outer_job(job, stream);
}

}  // namespace causeway::intra::cuda
