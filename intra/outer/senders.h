// A mean over those that sent an element, for sparse codecs: what a payload lacks is then not
// known, rather than zero.
//
//   mean[x] = sum over i of w_i Q_i[x]  x  W / max(W[x], largest w_i)
//
// where W is the sum of all weights and W[x] of those whose payload holds x. What all hold has its
// weighted mean. A contribution of less weight, because it is late or its norm is too large, counts
// less where it alone holds an element, too; and with less weight behind a round its whole mean is
// smaller. Canonical: each operation in fp32, sums in the order of the terms.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "intra/outer/decoder.h"

namespace causeway::intra {

struct Sender {
  const Decoder* payload = nullptr;
  float weight = 0;
};

// What the weighted sum of segment `index`, of `count` elements, is multiplied with. Empty: 1, as
// all hold all of it, or no weight is above 0. Throws what Decoder::add does.
std::vector<float> factors_by_senders(std::span<const Sender> senders, std::size_t index,
                                      std::size_t count);

}  // namespace causeway::intra
