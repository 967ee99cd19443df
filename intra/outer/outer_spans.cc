#include "intra/outer/outer_spans.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <exception>
#include <numeric>
#include <stdexcept>
#include <system_error>

#include "compression/base/codec.h"
#include "compression/base/parallel.h"
#include "diloco/maths/outer.h"
#include "intra/base/error.h"
#include "intra/base/global_norm.h"

namespace causeway::intra {
namespace {

constexpr std::uint32_t kExponent = 0x7F800000;
constexpr std::size_t kBlock = compression::kChunk;  // stays in a cache from one loop to the next
// As many leaves as are hashed at once; anchor, momentum and gradient of them stay in a cache.
constexpr std::size_t kPieceElements = 16 * diloco::kLeafElements;

bool all_finite(std::span<const float> values) {
  std::uint32_t bad = 0;
  for (const float value : values)
    bad |= (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent ? 1U : 0U;
  return bad == 0;
}

bool all_finite(std::span<const float> delta, float beta, std::span<const float> residual) {
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < delta.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(beta * residual[i] + delta[i]);
    bad |= (bits & kExponent) == kExponent ? 1U : 0U;
  }
  return bad == 0;
}

// Segments, or pieces, each by one thread. The bits are the same for any number.
template <typename Parts, typename Work>
void for_each(const Parts& parts, const Work& work) {
  compression::first_failure(
      parts.size(),
      [&](std::size_t i) {
        work(parts[i]);
        return true;
      },
      1);
}

}  // namespace

Undecodable::Undecodable(std::size_t its_place, const std::string& name,
                         const std::system_error& why)
    : std::system_error(why.code(), name + " cannot be decoded: " + message_of(why)),
      place(its_place) {}

bool is_undecodable(const std::error_code& code) {
  return code == compression::Errc::malformed || code == compression::Errc::bad_spec;
}

OuterSpans::OuterSpans(const diloco::Layout& layout)
    : layout_(&layout), everything_(layout.segments().size()) {
  std::iota(everything_.begin(), everything_.end(), std::size_t{0});
}

compression::EncodeKey OuterSpans::key_of(compression::EncodeKey key, std::size_t index) const {
  key.first_element = layout_->segments()[index].offset;
  return key;
}

void OuterSpans::add_term(const Term& term, Segments segments) {
  try {
    add(*term.payload, term.weight, Flat::scratch, segments);
  } catch (const std::system_error& error) {
    if (!is_undecodable(error.code())) throw;
    throw Undecodable(term.place, term.name, error);
  }
}

void OuterSpans::sum(std::span<const Term> terms, Segments segments) {
  clear(Flat::scratch, segments);
  for (const Term& term : terms) add_term(term, segments);
}

OuterSpans::StepLeaves OuterSpans::outer_step_and_leaves(const diloco::OuterOptions& options,
                                                         std::uint64_t turn, Segments segments) {
  outer_step(options, turn, segments);
  return {leaves(Flat::anchor, segments), leaves(Flat::momentum, segments)};
}

std::span<float> HostSpans::part(Flat which, std::size_t index) {
  const diloco::Segment& segment = layout().segments()[index];
  return std::span(state_.flat(which)).subspan(segment.offset, segment.count);
}

// Some leaves of one segment.
struct HostSpans::Piece {
  std::size_t begin = 0, count = 0;  // elements of the flat span
  std::size_t segment = 0;
  std::size_t first_leaf = 0;  // among those of all pieces
  bool is_statistic = false;

  std::size_t leaves() const { return count / diloco::kLeafElements; }
  std::span<diloco::Digest> of(std::vector<diloco::Digest>& all) const {
    return std::span(all).subspan(first_leaf, leaves());
  }
};

std::size_t HostSpans::leaves_of(const std::vector<Piece>& pieces) {
  return pieces.empty() ? 0 : pieces.back().first_leaf + pieces.back().leaves();
}

std::vector<HostSpans::Piece> HostSpans::pieces(Segments segments) const {
  std::vector<Piece> pieces;
  std::size_t leaf = 0;
  for (const std::size_t index : segments) {
    const diloco::Segment& segment = layout().segments()[index];
    for (std::size_t done = 0; done < segment.count; done += kPieceElements) {
      pieces.push_back({.begin = segment.offset + done,
                        .count = std::min(kPieceElements, segment.count - done),
                        .segment = index,
                        .first_leaf = leaf,
                        .is_statistic = diloco::is_statistic(segment.kind)});
      leaf += pieces.back().leaves();
    }
  }
  return pieces;
}

std::span<float> HostSpans::part(Flat which, const Piece& piece) {
  return std::span(state_.flat(which)).subspan(piece.begin, piece.count);
}

void HostSpans::copy(Flat from, Flat to, Segments segments) {
  state_.flat(to).resize(layout().size());
  for_each(segments, [&](std::size_t index) {
    std::ranges::copy(part(from, index), part(to, index).begin());
  });
}

void HostSpans::clear(Flat which, Segments segments) {
  if (state_.flat(which).empty()) return;
  for_each(segments, [&](std::size_t index) { std::ranges::fill(part(which, index), 0.0F); });
}

// Whether it is finite.
bool HostSpans::take_delta(Flat base, float beta, const Piece& piece) {
  const auto from = part(base, piece), params = part(Flat::params, piece),
             delta = part(Flat::scratch, piece);
  const auto residual = state_.residual.empty() ? std::span<float>() : part(Flat::residual, piece);
  for (std::size_t begin = 0; begin < delta.size(); begin += kBlock) {
    const auto block = delta.subspan(begin, kBlock);
    diloco::pseudo_gradient(from.subspan(begin, kBlock), params.subspan(begin, kBlock), block);
    if (residual.empty() ? !all_finite(block)
                         : !all_finite(block, beta, residual.subspan(begin, kBlock)))
      return false;
  }
  return true;
}

std::optional<std::size_t> HostSpans::take_delta(Flat base, float beta, Segments segments) {
  static_assert(kPieceElements == kSquareBlock);
  const std::vector<Piece> all = pieces(segments);
  std::vector<double> squares(all.size());
  const auto is_finite = [&](std::size_t place) {
    if (!take_delta(base, beta, all[place])) return false;
    squares[place] = sum_of_squares(part(Flat::scratch, all[place]));
    return true;
  };
  const std::size_t bad = compression::first_failure(all.size(), is_finite, 1);
  if (bad != compression::kNone) return all[bad].segment;
  delta_squares_.assign(layout().segments().size(), 0.0);
  for (std::size_t place = 0; place < all.size(); ++place)
    delta_squares_[all[place].segment] += squares[place];
  for (double& squared : delta_squares_) {
    const double norm = std::sqrt(squared);  // as global_norm() rounds it
    squared = norm * norm;
  }
  return std::nullopt;
}

std::vector<CodecPolicy::Encoded> HostSpans::encode(const CodecPolicy& policy,
                                                    const compression::EncodeKey& key,
                                                    Segments segments,
                                                    std::vector<std::byte>& out) {
  if (delta_squares_.size() != layout().segments().size())
    throw std::logic_error("encode() needs take_delta() of the same spans first");
  std::vector<CodecPolicy::Encoded> encoded;
  for (const std::size_t index : segments) {
    const auto residual =
        state_.residual.empty() ? std::span<float>() : part(Flat::residual, index);
    encoded.push_back(
        policy.encode(index, part(Flat::scratch, index), residual, out, key_of(key, index)));
    encoded.back().delta_squared = delta_squares_[index];
  }
  return encoded;
}

void HostSpans::add(const Decoder& payload, float weight, Flat which, Segments segments) {
  for (const std::size_t index : segments) payload.add(index, weight, part(which, index));
}

// Of many segments each thread takes some; of few all threads share each.
void HostSpans::sum(std::span<const Term> terms, Segments segments) {
  const auto sum_one = [&](std::size_t place) {
    OuterSpans::sum(terms, segments.subspan(place, 1));
  };
  if (segments.size() < 2 * compression::threads_wanted()) {
    for (std::size_t place = 0; place < segments.size(); ++place) sum_one(place);
    return;
  }
  std::vector<std::exception_ptr> failures(segments.size());
  const auto succeeds = [&](std::size_t place) {
    try {
      sum_one(place);
    } catch (...) {
      failures[place] = std::current_exception();
    }
    return failures[place] == nullptr;
  };
  const std::size_t bad = compression::first_failure(segments.size(), succeeds, 1);
  if (bad != compression::kNone) std::rethrow_exception(failures[bad]);
}

void HostSpans::scale(std::span<const float> factors, std::size_t index) {
  const std::span<float> values = part(Flat::scratch, index);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= factors[i];
}

void HostSpans::step(const diloco::OuterOptions& options, std::uint64_t turn, const Piece& piece) {
  constexpr diloco::OuterOptions kPlain{.kind = diloco::OuterOptions::Kind::sgd, .lr = 1.0F};
  diloco::outer_step(piece.is_statistic ? kPlain : options, part(Flat::scratch, piece),
                     part(Flat::anchor, piece), part(Flat::momentum, piece), turn);
}

void HostSpans::outer_step(const diloco::OuterOptions& options, std::uint64_t turn,
                           Segments segments) {
  for_each(pieces(segments), [&](const Piece& piece) { step(options, turn, piece); });
}

OuterSpans::StepLeaves HostSpans::outer_step_and_leaves(const diloco::OuterOptions& options,
                                                        std::uint64_t turn, Segments segments) {
  const std::vector<Piece> all = pieces(segments);
  const std::size_t count = leaves_of(all);
  StepLeaves leaves{std::vector<diloco::Digest>(count), std::vector<diloco::Digest>(count)};
  for_each(all, [&](const Piece& piece) {
    step(options, turn, piece);
    diloco::hash_leaves(part(Flat::anchor, piece), piece.of(leaves.anchor));
    diloco::hash_leaves(part(Flat::momentum, piece), piece.of(leaves.momentum));
  });
  return leaves;
}

void HostSpans::mix(float alpha, Segments segments) {
  for_each(segments, [&](std::size_t index) {
    diloco::mix(alpha, part(Flat::anchor, index), part(Flat::mark, index),
                part(Flat::params, index));
  });
}

std::vector<diloco::Digest> HostSpans::leaves(Flat which, Segments segments) {
  const std::vector<Piece> all = pieces(segments);
  std::vector<diloco::Digest> leaves(leaves_of(all));
  for_each(all,
           [&](const Piece& piece) { diloco::hash_leaves(part(which, piece), piece.of(leaves)); });
  return leaves;
}

void HostSpans::complete(Collective& hosts, const SegmentsByRank& segments, Flat which) {
  if (segments.size() == 1) return;
  std::size_t most = 0;
  for (const auto& of_rank : segments) most = std::max(most, of_rank.size());
  // A segment of each rank at a time: all at once would take as much memory again.
  for (std::size_t turn = 0; turn < most; ++turn) {
    const auto of_turn = [&](std::size_t rank) {
      const bool has_one = turn < segments[rank].size();
      return has_one ? part(which, segments[rank][turn]) : std::span<float>();
    };
    const auto gathered = hosts.all_gather(std::as_bytes(of_turn(hosts.rank())));
    for (std::size_t rank = 0; rank < segments.size(); ++rank) {
      const std::span<float> to = of_turn(rank);
      assert(gathered[rank].size() == to.size_bytes());
      if (rank != hosts.rank() && !to.empty())
        std::memcpy(to.data(), gathered[rank].data(), to.size_bytes());
    }
  }
}

}  // namespace causeway::intra
