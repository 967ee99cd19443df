#include "compression/error_budget.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace causeway::compression {

ErrorBudget::ErrorBudget(std::span<const std::string> ladder, double bound, std::size_t layers)
    : bound_(bound), rungs_(layers) {
  assert(!ladder.empty() && ladder.size() <= std::numeric_limits<std::uint8_t>::max());
  assert(bound >= 0);
  for (const std::string& spec : ladder) ladder_.push_back(make_codec(spec)->spec());
}

const std::string& ErrorBudget::spec(std::size_t layer) const {
  return ladder_[rungs_.at(layer)];
}

ErrorBudget::Verdict ErrorBudget::observe(std::size_t layer, const EncodeStats& stats) {
  if (stats.relative_squared_error() <= bound_) return Verdict::within;
  if (rungs_.at(layer) + 1U == ladder_.size()) return Verdict::exhausted;
  ++rungs_[layer];
  return Verdict::stepped_up;
}

bool ErrorBudget::restore(std::span<const std::uint8_t> rungs) {
  const auto known = [&](std::uint8_t rung) { return rung < ladder_.size(); };
  if (rungs.size() != rungs_.size() || !std::all_of(rungs.begin(), rungs.end(), known)) {
    return false;
  }
  std::copy(rungs.begin(), rungs.end(), rungs_.begin());
  return true;
}

std::vector<std::string> ladder_above(std::string_view spec) {
  std::vector<std::string> ladder;
  std::size_t bytes = 0;
  const auto add = [&](std::string_view rung) {
    const auto codec = make_codec(rung);
    if (codec->encoded_bytes_max(kChunk) <= bytes) return;
    bytes = codec->encoded_bytes_max(kChunk);
    ladder.push_back(codec->spec());
  };
  add(spec);
  for (const char* rung :
       {"topk:k=128", "topk:k=256", "topk:k=512", "dense:int4", "dense:int8", "dense:fp32"}) {
    add(rung);
  }
  return ladder;
}

}  // namespace causeway::compression
