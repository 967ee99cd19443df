// What every dropout mask of a step is drawn with.
#pragma once

#include "intra/model/kernels/philox.h"
#include "intra/model/model.h"

namespace causeway::intra {

inline PhiloxKey dropout_key(const DropoutKey& key) {
  return philox_key(mix_bits(mix_bits(key.seed) + key.step));
}

}  // namespace causeway::intra
