#include "intra/outer/confirmed_share.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "intra/outer/decoder.h"
#include "intra/outer/senders.h"

namespace causeway::intra {
namespace {

struct Part {
  Decoder payload;
  float weight = 0;
  bool is_own = false;
};

std::vector<Part> parts_of(const Agreed& agreed, const std::set<std::size_t>& left_out,
                           const std::string& region, const diloco::Layout& layout,
                           std::span<const std::size_t> segments) {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < agreed.payloads.size(); ++i) {
    if (left_out.contains(i)) continue;
    const diloco::Participant& one = agreed.record.participants[i];
    parts.push_back(
        {Decoder(agreed.payloads[i], layout, segments), one.weight, one.region == region});
  }
  return parts;
}

}  // namespace

std::optional<float> confirmed_share(const Agreed& agreed, const std::set<std::size_t>& left_out,
                                     const std::string& region, const diloco::Layout& layout,
                                     std::span<const std::size_t> segments,
                                     diloco::OuterOptions::Mean kind) {
  const std::vector<Part> parts = parts_of(agreed, left_out, region, layout, segments);
  if (std::ranges::all_of(parts, &Part::is_own)) return std::nullopt;
  std::vector<Sender> senders;
  for (const Part& part : parts) senders.push_back({&part.payload, part.weight});
  const std::size_t stride = (layout.size() + kShareElements - 1) / kShareElements;
  double with_mean = 0, with_itself = 0;  // inner products of what the region contributed
  std::vector<float> own, mean;
  for (std::size_t place = agreed.record.round % stride; place < segments.size(); place += stride) {
    const std::size_t index = segments[place];
    own.assign(layout.segments()[index].count, 0);
    mean.assign(own.size(), 0);
    for (const Part& part : parts) {
      part.payload.add(index, part.weight, mean);
      if (part.is_own) part.payload.add(index, 1.0F, own);
    }
    if (kind == diloco::OuterOptions::Mean::senders) {
      const auto factors = factors_by_senders(senders, index, mean.size());
      for (std::size_t i = 0; i < factors.size(); ++i) mean[i] *= factors[i];
    }
    for (std::size_t i = 0; i < own.size(); ++i) {
      with_mean += double{own[i]} * mean[i];
      with_itself += double{own[i]} * own[i];
    }
  }
  const double share = with_mean / with_itself;
  if (!std::isfinite(share)) return std::nullopt;
  return static_cast<float>(std::clamp(share, 0.0, 1.0));
}

}  // namespace causeway::intra
