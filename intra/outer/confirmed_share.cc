#include "intra/outer/confirmed_share.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "intra/outer/decoder.h"
#include "intra/outer/senders.h"

namespace causeway::intra {
namespace {

std::vector<Decoder> decoders_of(std::span<const std::span<const std::byte>> payloads,
                                 const diloco::Layout& layout,
                                 std::span<const std::size_t> segments) {
  std::vector<Decoder> decoders;
  for (const auto payload : payloads) decoders.emplace_back(payload, layout, segments);
  return decoders;
}

}  // namespace

std::optional<float> confirmed_share(const diloco::CommitRecord& record,
                                     std::span<const std::span<const std::byte>> payloads,
                                     const std::string& region, const diloco::Layout& layout,
                                     std::span<const std::size_t> segments,
                                     diloco::OuterOptions::Mean kind) {
  const auto is_own = [&](const diloco::Participant& p) { return p.region == region; };
  if (std::ranges::all_of(record.participants, is_own)) return std::nullopt;
  const std::vector<Decoder> decoders = decoders_of(payloads, layout, segments);
  std::vector<Sender> senders;
  for (std::size_t i = 0; i < decoders.size(); ++i)
    senders.push_back({&decoders[i], record.participants[i].weight});
  const std::size_t stride = (layout.size() + kShareElements - 1) / kShareElements;
  double with_mean = 0, with_itself = 0;  // inner products of what the region contributed
  std::vector<float> own, mean;
  for (std::size_t place = record.round % stride; place < segments.size(); place += stride) {
    const std::size_t index = segments[place];
    own.assign(layout.segments()[index].count, 0);
    mean.assign(own.size(), 0);
    for (std::size_t i = 0; i < decoders.size(); ++i) {
      const diloco::Participant& participant = record.participants[i];
      decoders[i].add(index, participant.weight, mean);
      if (is_own(participant)) decoders[i].add(index, 1.0F, own);
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
