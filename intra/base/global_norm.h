// The length of a vector, for clipping gradients and for choosing codecs.
#pragma once

#include <span>

namespace causeway::intra {

// sqrt(sum of squares), summed in double in a fixed order.
double global_norm(std::span<const float> values);

}  // namespace causeway::intra
