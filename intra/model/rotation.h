// The angles of rotary positions (arXiv 2104.09864).
#pragma once

#include <vector>

#include "intra/model/model.h"

namespace causeway::intra {

struct Rotations {
  std::vector<float> cosine, sine;  // (context, head size / 2); empty without rotary positions
};

Rotations make_rotations(const ModelOptions& options);

}  // namespace causeway::intra
