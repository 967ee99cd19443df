// What a region trains, in the memory of a device: flat fp32 spans laid out by diloco::Layout, as
// on the CPU.
#pragma once

#include <span>

namespace causeway::intra::cuda {

struct TrainingSpans {
  std::span<float> params, gradients;
};

}  // namespace causeway::intra::cuda
