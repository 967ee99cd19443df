// Kernels of the double: each job is played by the host when its stream gets there, one lane after
// the other.
#include "intra/cuda/jobs/kernels.h"

#include <variant>

#include "compression/cuda/error.h"
#include "tests/gpu_double/cudart.h"
#include "tests/intra/cuda/serial_backend.h"

namespace causeway::intra::cuda {
namespace {

const SerialOrder& order() {
  static const SerialOrder forwards{};
  return forwards;
}

template <typename Jobs>
void play_later(const Jobs& job, cudaStream_t stream) {
  gpu_double::enqueue(stream,
                      [job] { std::visit([](const auto& one) { order().play(one); }, job); });
  compression::cuda::check(cudaGetLastError(), "launching a kernel");
}

}  // namespace

void launch(const Job& job, cudaStream_t stream) {
  play_later(job, stream);
}
void launch(const OuterJob& job, cudaStream_t stream) {
  play_later(job, stream);
}

}  // namespace causeway::intra::cuda
