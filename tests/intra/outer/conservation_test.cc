// Nothing of a region's work is counted twice or lost silently (docs/rounds.md, "What happens to a
// contribution"): whatever happens to its contributions,
//
//   all displacements = delivered + residual + in flight + reported as dropped,
//
// bit for bit, however the exchange overlaps with training. The arithmetic is exact here:
// displacements are multiples of 2^-12, weights and the outer learning rate are 1, nothing is
// mixed, the codec keeps values as they are, and the residual does not decay.
#include <gtest/gtest.h>

#include <random>

#include "intra/collective/collective.h"
#include "intra/outer/decoder.h"
#include "intra/outer/outer_round.h"
#include "intra/outer/state_file.h"
#include "tests/intra/temporary_directory.h"

namespace causeway::intra {
namespace {

using Bytes = std::vector<std::byte>;
constexpr OuterRound::Batch kTwoSamples{2, 16};

const diloco::Layout& small_layout() {
  static const diloco::Layout small({{"a", {64, 64}}, {"b", {40, 70}}, {"x", {70}}});
  return small;
}

using Variant = diloco::OverlapOptions::Variant;

struct Case {
  bool feedback = true;
  Variant variant = Variant::synchronous;
  std::uint32_t fragments = 1;
};

class Books {
 public:
  Books(const Case& tested, std::uint64_t seed)
      : feedback_(tested.feedback),
        overlaps_(tested.variant != Variant::synchronous),
        fragments_(small_layout(), tested.fragments, diloco::FragmentOrder::strided),
        engine_(seed),
        state_(small_layout()) {
    CodecOptions codec;
    codec.matrix = feedback_ ? "topk:k=500,chunk=4096,value=fp32" : "dense:fp32";
    codec.vector = "dense:fp32";
    codec.feedback = feedback_;
    codec.feedback_decay = 1;
    round_.emplace(OuterRound::Place{.region = "us"}, codec,
                   diloco::OuterOptions{diloco::OuterOptions::Kind::sgd, 1.0F, 0.0F},
                   diloco::OverlapOptions{
                       .variant = tested.variant, .fragments = tested.fragments, .mixing = 0},
                   small_layout());
    state_.digest = whole_digest(state_);
  }

  // One event of a random history, then the sum.
  void happen() {
    const auto event = engine_() % 40;
    if (event < 8) {
      train();
    } else if (event < 14) {
      if (state_.contributed()) train();  // cut off
    } else if (event < 26) {
      if (state_.work.steps > 0) contribute();
    } else if (event < 38) {
      commit();
    } else if (event < 39) {
      restore();
    } else {
      restart();
    }
    check();
  }

  std::size_t late = 0, returned = 0, dropped = 0, parts = 0;

 private:
  using Sum = std::vector<double>;

  template <typename Values>
  static void add(const Values& values, double sign, Sum& sum) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += sign * static_cast<double>(values[i]);
  }
  std::vector<float> decoded(diloco::Round round, const Bytes& payload) const {
    const auto segments = fragments_.segments(fragments_.of_round(round));
    const Decoder decoder(payload, small_layout(), segments);
    std::vector<float> values(small_layout().size());
    for (const std::size_t s : segments) {
      const diloco::Segment& segment = small_layout().segments()[s];
      decoder.add(s, 1.0F, std::span(values).subspan(segment.offset, segment.count));
    }
    return values;
  }
  std::vector<float> open_work() const {
    std::vector<float> delta(small_layout().size());
    if (!overlaps_ && state_.work.steps == 0) return delta;
    diloco::pseudo_gradient(state_.mark.empty() ? state_.anchor : state_.mark, state_.params,
                            delta);
    return delta;
  }

  void train() {
    if (!overlaps_ && state_.contributed() && state_.mark.empty()) state_.mark = state_.params;
    for (const diloco::PlacedTensor& tensor : small_layout().tensors()) {
      for (std::size_t i = 0; i < tensor.spec.count(); ++i) {
        const auto step = static_cast<float>(static_cast<int>(engine_() % 17) - 8) * 0x1p-12F;
        state_.params[tensor.offset + i] += step;
        done_[tensor.offset + i] -= static_cast<double>(step);
      }
    }
    ++state_.work.steps;
  }

  void contribute() {
    const auto alone = make_collective({});
    const Encoding encoding = round_->encode(*alone, kTwoSamples, state_);
    const InFlight& made = *state_.own(encoding.part);
    if (made.contribution.part > 0) ++parts;
    const auto bytes = made.payload.bytes();
    sent_[{made.contribution.round, made.contribution.part}] = {bytes.begin(), bytes.end()};
  }

  // A record that lists some of what is in flight, and lets some of it expire.
  void commit() {
    diloco::CommitRecord record;
    record.round = state_.version;
    record.state = state_.digest;
    const diloco::Round cap = engine_() % 3 * fragments_.count();
    record.expired_before = state_.version - std::min<diloco::Round>(state_.version, cap);
    if (engine_() % 4 == 0) record.expired_before = state_.version + 1;
    std::vector<Bytes> payloads;
    for (const auto& [key, payload] : sent_) {
      const bool has_its_turn = (state_.version - key.first) % fragments_.count() == 0;
      if (!has_its_turn || engine_() % 2 == 0) continue;
      record.participants.push_back({"us",
                                     key.first,
                                     key.second,
                                     1.0F,
                                     0,
                                     0,
                                     0,
                                     {diloco::tree_hash(payload), payload.size()}});
      payloads.push_back(payload);
      add(decoded(key.first, payload), 1, delivered_);
    }
    for (const auto& listed : record.participants) sent_.erase({listed.round, listed.part});
    const std::vector<float> open = open_work();
    const auto before = state_.in_flight;
    const std::vector<std::span<const std::byte>> views(payloads.begin(), payloads.end());
    const auto alone = make_collective({});
    account(round_->apply(*alone, record, views, state_), record.round, before, open);
    std::erase_if(sent_,
                  [&](const auto& entry) { return entry.first.first < record.expired_before; });
  }

  void account(const std::vector<Outcome>& outcomes, diloco::Round round,
               const std::vector<InFlight>& before, const std::vector<float>& open) {
    for (const Outcome& outcome : outcomes) {
      EXPECT_NE(outcome.fate, ContributionFate::forgotten);
      if (outcome.fate == ContributionFate::delivered && outcome.round < round) ++late;
      if (outcome.fate == ContributionFate::returned) ++returned;
      if (outcome.fate != ContributionFate::dropped) continue;
      ++dropped;
      const auto own = std::find_if(before.begin(), before.end(), [&](const InFlight& entry) {
        return entry.contribution.round == outcome.round && entry.contribution.part == outcome.part;
      });
      if (own == before.end()) {
        add(open, 1, reported_);
      } else {
        add(decoded(outcome.round, sent_.at({outcome.round, outcome.part})), 1, reported_);
      }
    }
  }

  // The state of a later version comes from another region. What is in flight may still be listed.
  void restore() {
    add(open_work(), 1, reported_);
    add(state_.residual, 1, reported_);
    state_.adopt(state_.version + 1 + engine_() % 3);
  }

  void restart() {
    save_image(directory_.path(), image_of(state_, small_layout(), {}, {}),
               snapshot_of(state_, small_layout()));
    OuterState fresh(small_layout());
    ASSERT_TRUE(load_outer_state(directory_.path(), small_layout(), fresh));
    state_ = std::move(fresh);
  }

  void check() const {
    Sum sum(small_layout().size());
    add(delivered_, 1, sum);
    add(reported_, 1, sum);
    if (feedback_) add(state_.residual, 1, sum);
    add(open_work(), 1, sum);
    for (const auto& [key, payload] : sent_) add(decoded(key.first, payload), 1, sum);
    for (std::size_t i = 0; i < sum.size(); ++i) ASSERT_EQ(sum[i], done_[i]) << "element " << i;
  }

  bool feedback_, overlaps_;
  diloco::Fragments fragments_;
  std::mt19937_64 engine_;
  OuterState state_;
  std::optional<OuterRound> round_;
  TemporaryDirectory directory_;
  std::map<std::pair<diloco::Round, std::uint32_t>, Bytes> sent_;  // in flight, as the run sees it
  Sum done_ = Sum(small_layout().size()), delivered_ = done_, reported_ = done_;
};

class Conservation : public testing::TestWithParam<Case> {};

TEST_P(Conservation, HoldsInRandomHistories) {
  std::size_t late = 0, returned = 0, dropped = 0, parts = 0;
  for (std::uint64_t seed = 0; seed < 30 && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Books books(GetParam(), seed);
    for (int event = 0; event < 60 * static_cast<int>(GetParam().fragments) && !HasFatalFailure();
         ++event)
      books.happen();
    late += books.late;
    returned += books.returned;
    dropped += books.dropped;
    parts += books.parts;
  }
  // The histories did contain what they are about.
  EXPECT_GT(late, 20);
  // Steps that overlap with a round are dropped only with what was contributed.
  if (!GetParam().feedback || GetParam().variant == Variant::synchronous) {
    EXPECT_GT(dropped, 20);
  }
  EXPECT_GT(parts, 20);
  EXPECT_EQ(returned > 20, GetParam().feedback);
}

std::string name_of(const testing::TestParamInfo<Case>& tested) {
  const std::string names[] = {"Synchronous", "Streaming", "Delayed", "Eager"};
  return names[static_cast<int>(tested.param.variant)] + std::to_string(tested.param.fragments) +
         (tested.param.feedback ? "WithFeedback" : "Without");
}

INSTANTIATE_TEST_SUITE_P(Variants, Conservation,
                         testing::Values(Case{true}, Case{false}, Case{true, Variant::streaming},
                                         Case{true, Variant::streaming, 3},
                                         Case{false, Variant::streaming, 3},
                                         Case{true, Variant::delayed}, Case{true, Variant::eager},
                                         Case{false, Variant::eager}),
                         name_of);

}  // namespace
}  // namespace causeway::intra
