#include "apps/run/replay/credit.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <system_error>

#include <fmt/format.h>

#include "apps/run/config/config.h"
#include "apps/run/config/prices.h"
#include "apps/run/replay/replay.h"
#include "apps/run/replay/replay_source.h"
#include "apps/run/replay/without_region.h"
#include "apps/run/verify/applied_payloads.h"
#include "diloco/files/error.h"
#include "intra/data/data.h"
#include "intra/model/model.h"

namespace causeway::run {
namespace {

using BatchLosses = std::vector<intra::BlockLoss>;

// What the run validated on; of a run whose regions have data of their own, only what all have.
class ValidationData {
 public:
  explicit ValidationData(const Config& config)
      : name_(config.data.validation_files.empty() ? "the validation part of data.files"
                                                   : "data.validation_files"),
        sequences_(config.train.validation_sequences),
        model_(intra::make_model(config.model)),
        dataset_(options_of(config)) {
    intra::check_validation(dataset_, config.model.context);
  }

  const std::string& name() const { return name_; }

  BatchLosses losses(std::span<const float> params) {
    model_->params_changed();
    return intra::block_losses(*model_, params, dataset_, sequences_);
  }

 private:
  static intra::DataOptions options_of(const Config& config) {
    if (!config.data.validation_files.empty()) return intra::common_validation(config.data);
    if (!config.data.per_region) return config.data;
    throw ConfigError(
        "--credit: with data.mode = \"per-region\" the validation part of one region's data would "
        "favour that region; name data that belongs to no region with "
        "--set 'data.validation_files=[\"FILE\"]'");
  }

  std::string name_;
  std::uint64_t sequences_;
  std::unique_ptr<intra::Model> model_;
  intra::Dataset dataset_;
};

// What a round changes of a state.
struct HeldState {
  std::vector<float> anchor, momentum;
  diloco::Digest digest{};
};

HeldState held(const intra::OuterState& state) {
  return {state.anchor, state.momentum, state.digest};
}

class Crediting {
 public:
  explicit Crediting(const CreditOptions& options)
      : source_(options.paths, options.certificates, options.overrides),
        layout_(source_.layout()),
        round_(applying_round(source_.config(), layout_)),
        state_(layout_),
        work_(layout_, {.outer = true, .residual = false}) {
    choose_window(options.rounds);
    check_model();
    prices_ = prices_of(source_.config());
    count_contributions();
    validation_ = std::make_unique<ValidationData>(source_.config());
  }

  CreditTable run() {
    source_.begin(table_.first, layout_, state_);
    while (state_.version < table_.first) {
      check_state();
      advance(source_.record(state_.version), source_.payloads(state_.version), state_);
    }
    for (const auto& [region, figures] : figures_) without_.emplace(region, held(state_));
    BatchLosses losses;
    while (state_.version <= table_.last) losses = take_round();
    check_state();
    return tabulate(losses);
  }

 private:
  struct Figures {
    RegionCredit credit;
    LossDifference singly;
  };

  void choose_window(const std::optional<RoundWindow>& asked) {
    const diloco::Round rounds = source_.rounds();
    if (rounds == 0) throw ConfigError("--credit: no round of this run was decided yet");
    table_.run_id = source_.run_id();
    table_.last = asked ? asked->last : rounds - 1;
    table_.first = asked ? asked->first : rounds - std::min(rounds, kCreditedRounds);
    if (table_.last >= rounds)
      throw ConfigError(fmt::format("--rounds {}-{}: the ledger has rounds 0 to {}", table_.first,
                                    table_.last, rounds - 1));
    for (diloco::Round round = table_.first; round <= table_.last; ++round)
      require_contributions(source_.record(round), "--credit");
  }

  void check_model() const {
    if (source_.config().built_in_trainer() && is_native_model(source_.config(), layout_)) return;
    throw ConfigError(
        "--credit: this run trained a model that is not one of `causeway worker`, so its "
        "validation loss cannot be measured here; write models with --without REGION@ROUND --model "
        "DIR and measure them with the program that trained");
  }

  void count_contributions() {
    for (diloco::Round round = table_.first; round <= table_.last; ++round) {
      std::map<std::string, std::uint64_t> listed;
      for (const diloco::Participant& one : source_.record(round).participants) {
        RegionCredit& credit = figures_[one.region].credit;
        credit.tokens += one.tokens;
        listed[one.region] += one.payload.size_bytes;
      }
      for (const auto& [region, bytes] : listed) {
        ++figures_[region].credit.rounds;
        charge(region, bytes, source_.record(round));
      }
    }
    if (figures_.size() >= 2) return;
    throw ConfigError(fmt::format(
        "--credit: {} contributed to rounds {} to {}, so there is no run without it to compare "
        "with",
        figures_.empty() ? "no region" : figures_.begin()->first + " alone", table_.first,
        table_.last));
  }

  // Payloads, once to each other region.
  void charge(const std::string& region, std::uint64_t bytes, const diloco::CommitRecord& record) {
    RegionCredit& credit = figures_[region].credit;
    credit.region = region;
    if (prices_.given && !credit.cost) credit.cost = 0;
    for (const diloco::Standing& other : record.standings) {
      if (other.region == region) continue;
      credit.sent_bytes += bytes;
      if (credit.cost) *credit.cost += prices_.of(region, other.region, static_cast<double>(bytes));
    }
  }

  // ---- Rounds ----

  void advance(const diloco::CommitRecord& record, const std::vector<diloco::MappedBytes>& payloads,
               intra::OuterState& state) const {
    apply_payloads(round_, source_.record(record.round), payloads, record, state);
  }

  // One round from `from`, in work_.
  void advance_from(const HeldState& from, const diloco::CommitRecord& record,
                    const std::vector<diloco::MappedBytes>& payloads) {
    work_.anchor = from.anchor;
    work_.momentum = from.momentum;
    work_.digest = from.digest;
    work_.adopt(record.round);
    advance(record, payloads, work_);
  }

  // Returns the losses after it, as decided.
  BatchLosses take_round() {
    check_state();
    const diloco::Round number = state_.version;
    const diloco::CommitRecord& record = source_.record(number);
    const diloco::CommitRecord* before = number > 0 ? &source_.record(number - 1) : nullptr;
    const auto payloads = source_.payloads(number);
    const HeldState start = held(state_);
    advance(record, payloads, state_);
    const BatchLosses decided = validation_->losses(state_.anchor);
    for (auto& [region, figures] : figures_) {
      const diloco::CommitRecord without =
          without_region(record, before, region, source_.config().overlap.fragments);
      if (without.participants.size() < record.participants.size()) {
        advance_from(start, without, payloads);
        note(number, decided, validation_->losses(work_.anchor), figures);
      }
      advance_from(without_.at(region), without, payloads);
      without_.at(region) = held(work_);
    }
    return decided;
  }

  static void note(diloco::Round round, const BatchLosses& decided, const BatchLosses& without,
                   Figures& figures) {
    figures.singly.add(decided, without);
    figures.credit.by_round.emplace_back(round, mean_loss(without) - mean_loss(decided));
  }

  // Credit for a run that is not this one would be worth nothing.
  void check_state() const {
    const diloco::Round version = state_.version;
    bool right = true;
    if (version < source_.rounds()) {
      right = state_.digest == source_.record(version).state;
    } else {
      const ReplaySource::Signers signers = source_.signers(version, state_.digest);
      right = signers.other.empty() || !signers.same.empty();
    }
    if (right) return;
    throw std::system_error(
        make_error_code(diloco::Errc::lineage),
        fmt::format("--credit: the state of version {} that the payloads give is not the one that "
                    "was agreed on; `causeway replay` without --credit says more",
                    version));
  }

  // ---- The table ----

  CreditTable tabulate(const BatchLosses& decided) {
    table_.loss = mean_loss(decided);
    table_.data = validation_->name();
    table_.batches = decided.size();
    for (const intra::BlockLoss& batch : decided) table_.sequences += batch.windows;
    for (auto& [region, figures] : figures_) {
      LossDifference window;
      window.add(decided, validation_->losses(without_.at(region).anchor));
      RegionCredit& credit = figures.credit;
      credit.window = window.worth();
      credit.singly = figures.singly.worth();
      std::vector<double> by_round;
      for (const auto& [round, worth] : credit.by_round) by_round.push_back(worth);
      credit.singly.rounds_error = error_of_sum(by_round);
      table_.regions.push_back(std::move(credit));
    }
    std::ranges::stable_sort(table_.regions, std::ranges::greater(),
                             [](const RegionCredit& one) { return one.window.value; });
    return std::move(table_);
  }

  const ReplaySource source_;
  const diloco::Layout layout_;
  const intra::OuterRound round_;
  intra::OuterState state_;                   // as it was decided
  intra::OuterState work_;                    // as it was not
  std::map<std::string, HeldState> without_;  // by region: the window so far
  std::map<std::string, Figures> figures_;
  Prices prices_;
  std::unique_ptr<ValidationData> validation_;
  CreditTable table_;
};

}  // namespace

RoundWindow parse_rounds(const std::string& text) {
  RoundWindow window;
  const char *from = text.data(), *const end = from + text.size();
  auto read = std::from_chars(from, end, window.first);
  window.last = window.first;
  bool good = read.ec == std::errc();
  if (good && read.ptr != end && *read.ptr == '-') {
    read = std::from_chars(read.ptr + 1, end, window.last);
    good = read.ec == std::errc();
  }
  if (good && read.ptr == end && window.first <= window.last) return window;
  throw ConfigError("--rounds " + text +
                    ": must be FIRST-LAST, such as 10-19, or one round, such as 10");
}

CreditTable credit(const CreditOptions& options) {
  return Crediting(options).run();
}

}  // namespace causeway::run
