#include "intra/model/rotation.h"

#include <cmath>

namespace causeway::intra {

Rotations make_rotations(const ModelOptions& options) {
  Rotations tables;
  if (options.family != ModelOptions::Family::llama) return tables;
  const auto half = options.width / options.heads / 2;
  for (std::int64_t position = 0; position < options.context; ++position) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) * rotation_frequency(options, i);
      tables.cosine.push_back(static_cast<float>(std::cos(angle)));
      tables.sine.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  return tables;
}

}  // namespace causeway::intra
