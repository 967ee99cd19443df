#include "intra/outer/reduce.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "compression/codecs/outliers.h"
#include "compression/codecs/payload.h"
#include "intra/base/error.h"
#include "intra/outer/decoder.h"
#include "intra/outer/senders.h"

namespace causeway::intra {
namespace {

using Places = std::set<std::size_t>;

std::string name_of(const Agreed& agreed, std::size_t place) {
  const diloco::CommitRecord& record = agreed.record;
  return record.sums.empty() ? fmt::format("what {} contributed to round {}",
                                           record.participants[place].region, record.round)
                             : fmt::format("the sum of shard {} in round {}", place, record.round);
}

// Its hash was right when it came. If it is not now, that is this host's trouble alone.
void check_hash(const Agreed& agreed, std::size_t place) {
  const inter::BlobId blob = applied_blobs(agreed.record)[place];
  const auto bytes = agreed.payloads[place];
  if (bytes.size() == blob.size_bytes && diloco::tree_hash(bytes) == blob.hash) return;
  throw std::system_error(
      std::make_error_code(std::errc::io_error),
      name_of(agreed, place) + " has changed since it came: this host's disk or memory fails");
}

// One try.
class Reduction {
 public:
  Reduction(const Ownership& ownership, const Agreed& agreed, const Places& left_out,
            OuterSpans& spans)
      : ownership_(ownership),
        agreed_(agreed),
        left_out_(left_out),
        spans_(spans),
        fragment_(ownership.fragments().of_round(agreed.record.round)) {}

  // Of a full round.
  void take_payloads(diloco::OuterOptions::Mean mean) const;
  // Of a sharded one: what the participants add up to, in parts.
  void take_sums() const;
  // Of a full round whose payloads can be decoded: those that count as 0 all the same, for their
  // steps or for their averaged statistics.
  std::vector<compression::Outlier> outliers() const;

 private:
  Segments all() const { return ownership_.fragments().segments(fragment_); }
  Decoder decoder_of(std::size_t place, Segments segments) const;
  std::vector<std::size_t> segments_held(std::size_t place, Segments left) const;
  std::size_t place_of_lowest() const;
  void divide_by_senders(std::span<const OuterSpans::Term> terms, Segments segments) const;
  template <typename Wanted>
  std::vector<compression::Outlier> outliers_of(const Wanted& wanted, double limit) const;

  const Ownership& ownership_;
  const Agreed& agreed_;
  const Places& left_out_;
  OuterSpans& spans_;
  std::size_t fragment_;
};

Decoder Reduction::decoder_of(std::size_t place, Segments segments) const {
  try {
    return {agreed_.payloads[place], ownership_.layout(), segments};
  } catch (const std::system_error& error) {
    if (!is_undecodable(error.code())) throw;
    throw Undecodable(place, name_of(agreed_, place), error);
  }
}

// The first that is listed in its own round, whole.
std::size_t Reduction::place_of_lowest() const {
  const diloco::CommitRecord& record = agreed_.record;
  std::size_t place = 0;
  for (const diloco::Participant& one : record.participants) {
    if (one.round == record.round && one.part == 0 && !left_out_.contains(place)) break;
    ++place;
  }
  return place;
}

void Reduction::take_payloads(diloco::OuterOptions::Mean mean) const {
  const auto& participants = agreed_.record.participants;
  const Segments mine = ownership_.mine(fragment_);
  std::vector<Decoder> decoders;
  decoders.reserve(participants.size());  // terms point to them
  std::vector<OuterSpans::Term> terms, of_lowest;
  for (std::size_t i = 0; i < participants.size(); ++i) {
    if (left_out_.contains(i)) continue;
    decoders.push_back(decoder_of(i, all()));
    terms.push_back({&decoders.back(), participants[i].weight, name_of(agreed_, i), i});
    if (i != place_of_lowest()) continue;
    of_lowest.push_back(terms.back());
    of_lowest.back().weight = 1;
  }
  spans_.sum(terms, mine);
  spans_.sum(of_lowest, only(ownership_.layout(), mine,
                             [](auto kind) { return kind == diloco::SegmentClass::lowest; }));
  if (mean == diloco::OuterOptions::Mean::senders) divide_by_senders(terms, mine);
}

void Reduction::divide_by_senders(std::span<const OuterSpans::Term> terms,
                                  Segments segments) const {
  std::vector<Sender> senders;
  for (const OuterSpans::Term& term : terms) senders.push_back({term.payload, term.weight});
  for (const std::size_t index : segments) {
    const diloco::Segment& segment = ownership_.layout().segments()[index];
    if (diloco::is_statistic(segment.kind)) continue;
    const auto factors = factors_by_senders(senders, index, segment.count);
    if (!factors.empty()) spans_.scale(factors, index);
  }
}

std::vector<compression::Outlier> Reduction::outliers() const {
  using compression::kPartLimit, compression::kPayloadLimit;
  const bool whole = ownership_.fragments().count() == 1;
  std::vector<compression::Outlier> found = outliers_of(
      [](auto kind) { return !diloco::is_statistic(kind); }, whole ? kPayloadLimit : kPartLimit);
  std::ranges::copy(
      outliers_of([](auto kind) { return kind == diloco::SegmentClass::averaged; }, kPartLimit),
      std::back_inserter(found));
  return found;
}

template <typename Wanted>
std::vector<compression::Outlier> Reduction::outliers_of(const Wanted& wanted, double limit) const {
  const std::vector<std::size_t> segments = only(ownership_.layout(), all(), wanted);
  const auto& participants = agreed_.record.participants;
  std::vector<compression::SentNorm> sent;
  for (std::size_t i = 0; i < participants.size(); ++i) {
    if (left_out_.contains(i)) continue;
    const Decoder payload = decoder_of(i, all());
    sent.push_back({i, participants[i].region, participants[i].weight, 0});
    for (const std::size_t index : segments)
      sent.back().norm_squared += payload.norm_squared_bound(index);
  }
  return compression::outliers(sent, limit);
}

// What no sum has, because nobody's payload of that shard could be decoded, is 0.
void Reduction::take_sums() const {
  const Segments mine = ownership_.mine(fragment_);
  spans_.clear(Flat::scratch, mine);
  Segments left = all();
  for (std::size_t i = 0; i < agreed_.payloads.size(); ++i) {
    if (left_out_.contains(i)) continue;
    const std::vector<std::size_t> held = segments_held(i, left);
    const Decoder decoder = decoder_of(i, held);
    std::vector<std::size_t> own;
    std::ranges::set_intersection(held, mine, std::back_inserter(own));
    const OuterSpans::Term term{&decoder, 1.0F, name_of(agreed_, i), i};
    spans_.sum(std::span(&term, 1), own);
    if (held.empty()) continue;
    const auto next = std::ranges::upper_bound(left, held.back());
    left = left.subspan(static_cast<std::size_t>(next - left.begin()));
  }
}

// A sum may hold only what the sums before it have left.
std::vector<std::size_t> Reduction::segments_held(std::size_t place, Segments left) const {
  try {
    std::vector<std::size_t> held;
    for (const auto& one : compression::read_payload(agreed_.payloads[place]).segments)
      held.push_back(one.index);
    if (std::ranges::includes(left, held)) return held;
    throw std::system_error(compression::Errc::malformed, "is not of the round's segments");
  } catch (const std::system_error& error) {
    throw Undecodable(place, name_of(agreed_, place), error);
  }
}

void tell(const std::string& trouble) {
  spdlog::error("{}; it counts as 0, here and in all other regions", trouble);
}

}  // namespace

// A rank sees only what its own segments need, so the ranks tell each other. Outliers are sought
// once, among all that can be decoded: what is left then does not depend on who found what first.
Places reduce(Collective& collective, const Ownership& ownership, diloco::OuterOptions::Mean mean,
              const Agreed& agreed, OuterSpans& spans) {
  Places left_out;
  bool measured = !agreed.record.sums.empty();
  for (;;) {
    const Reduction reduction(ownership, agreed, left_out, spans);
    std::optional<Undecodable> found;
    together(collective, "decoding", [&] {
      try {
        agreed.record.sums.empty() ? reduction.take_payloads(mean) : reduction.take_sums();
      } catch (const Undecodable& undecodable) {
        check_hash(agreed, undecodable.place);
        found = undecodable;
      }
    });
    constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
    const std::uint64_t place = lowest_of_ranks(collective, found ? found->place : kNone);
    if (place != kNone) {
      left_out.insert(place);
      if (found && found->place == place) tell(found->what());
      continue;
    }
    if (std::exchange(measured, true)) return left_out;
    std::vector<compression::Outlier> outliers;
    together(collective, "measuring payloads", [&] {
      outliers = reduction.outliers();
      for (const compression::Outlier& one : outliers) check_hash(agreed, one.place);
    });
    if (outliers.empty()) return left_out;
    for (const compression::Outlier& one : outliers) {
      left_out.insert(one.place);
      if (collective.rank() == 0) tell(name_of(agreed, one.place) + " " + in_words(one));
    }
  }
}

}  // namespace causeway::intra
