#include "apps/run/replay/replay.h"

#include <omp.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "apps/run/page/format.h"
#include "apps/run/replay/replay_source.h"
#include "apps/run/replay/reweighting.h"
#include "diloco/files/error.h"
#include "inter/base/text.h"
#include "intra/base/safetensors.h"
#include "intra/collective/collective.h"
#include "intra/outer/outer_round.h"
#include "intra/outer/state_file.h"
#include "intra/published/checkpoint.h"
#include "intra/step/evaluation.h"

namespace causeway::run {
namespace {

std::string version_text(diloco::Round version) {
  return fmt::format("version {}", version);
}

std::string first_digits(const diloco::Digest& digest) {
  return diloco::to_hex(digest).substr(0, 16);
}

std::string names_text(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) inter::append_item(text, name);
  return text;
}

class Replayer {
 public:
  explicit Replayer(const ReplayOptions& options)
      : options_(options),
        source_(options.paths, options.certificates, options.overrides),
        layout_(source_.layout()),
        round_(applying_round(source_.config(), layout_)),
        state_(layout_),
        to_(options.to.value_or(source_.rounds())) {
    check_options();
    // A thread of our own reads ahead; OpenMP's, while they wait, would take its processor.
    omp_set_num_threads(1);
  }

  Replay run() {
    if (!source_.signatures_checked())
      say("signatures are not checked; --certificates DIR checks them");
    source_.begin(options_.from, layout_, state_);
    begun_at_ = state_.version;
    while (replay_.right && state_.version < to_) {
      write_model_if_asked();
      take_round();
    }
    if (replay_.right) check_last();
    write_model_if_asked();
    tell();
    return std::move(replay_);
  }

 private:
  void say(const std::string& line) { replay_.lines.push_back(line); }

  void check_options() const {
    const auto within = [this](const std::string& flag, diloco::Round version, diloco::Round last) {
      if (version <= last) return;
      throw ConfigError(fmt::format(
          "{} {}: the {} 0 to {}", flag, version,
          last == source_.rounds() ? "run has versions" : "replay goes from version", last));
    };
    within("--to", to_, source_.rounds());
    within("--from", options_.from, to_);
    within("--version", options_.model_version.value_or(to_), to_);
    check_each_once(options_.changes);
    for (const Reweighting& change : options_.changes) {
      if (change.round < options_.from || change.round >= to_) {
        throw ConfigError(
            fmt::format("round {} of {} is not replayed: the replay goes from version {} to {}",
                        change.round, change.region, options_.from, to_));
      }
      reweighted(source_.record(change.round), options_.changes);
    }
  }

  void take_round() {
    const diloco::Round number = state_.version;
    if (const diloco::CommitRecord& record = source_.record(number); state_.digest != record.state)
      return differ(record.state);
    const auto payloads = next_payloads();
    const bool changed = std::ranges::count(options_.changes, number, &Reweighting::round) > 0;
    if (changed && !otherwise_) {
      begin_otherwise();
    }
    const diloco::CommitRecord& listed = source_.record(number);
    if (otherwise_)
      apply_payloads(round_, listed, payloads, reweighted(listed, options_.changes), *otherwise_);
    apply_payloads(round_, listed, payloads, listed, state_);
    if (changed && number == changed_from_) compare();
  }

  void begin_otherwise() {
    changed_from_ = state_.version;
    before_ = state_.anchor;
    otherwise_ = std::make_unique<intra::OuterState>(layout_);
    otherwise_->anchor = state_.anchor;
    otherwise_->momentum = state_.momentum;
    otherwise_->digest = state_.digest;
    otherwise_->adopt(state_.version);
  }

  // The next round's are read and hashed meanwhile.
  std::vector<diloco::MappedBytes> next_payloads() {
    const diloco::Round number = state_.version;
    auto payloads = ahead_.valid() ? ahead_.get() : source_.payloads(number);
    if (number + 1 < to_)
      ahead_ =
          std::async(std::launch::async, [this, number] { return source_.payloads(number + 1); });
    return payloads;
  }

  // `agreed`: what the ledger names; none after the last round.
  void differ(const std::optional<diloco::Digest>& agreed) {
    replay_.right = false;
    const std::string version = version_text(state_.version);
    say(fmt::format(
        "the state of {} that the payloads give ({}) is not the one {}: the first difference is in "
        "round {}",
        version, first_digits(state_.digest),
        agreed ? "that was agreed on (" + first_digits(*agreed) + ")" : "that was signed",
        state_.version - 1));
    const ReplaySource::Signers signers = source_.signers(state_.version, state_.digest);
    if (!signers.same.empty()) say("the computed state was signed by " + names_text(signers.same));
    if (!signers.other.empty()) say("another state was signed by " + names_text(signers.other));
    const auto [first, last] = source_.states().equal_range(state_.version);
    bool told = false;
    for (auto kept = first; kept != last; ++kept) {
      const auto where = first_difference(layout_, state_, kept->second);
      if (where) say(kept->second.string() + " differs first in " + *where);
      told = told || where;
    }
    if (!told) say("no other state of " + version + " is kept, so the tensor is not known");
  }

  // After the last round no record tells, but what the regions signed at the end.
  void check_last() {
    const diloco::Round version = state_.version;
    const ReplaySource::Signers signers = source_.signers(version, state_.digest);
    if (version < source_.rounds()) {
      if (state_.digest != source_.record(version).state)
        return differ(source_.record(version).state);
    } else if (!signers.other.empty() && signers.same.empty()) {
      return differ(std::nullopt);
    }
    say(version_text(version) + " has state " + diloco::to_hex(state_.digest) + ", " +
        (signers.same.empty()
             ? version < source_.rounds() ? "which the ledger names" : "which no region signed"
             : "signed by " + names_text(signers.same)));
    if (otherwise_ && version > changed_from_ + 1) compare();
    if (otherwise_ && options_.loss)
      say(loss_text(source_.config(), layout_, state_.anchor, otherwise_->anchor));
  }

  void compare() {
    for (const std::string& line :
         compare_moves(layout_, state_.version, before_, state_.anchor, otherwise_->anchor))
      say(line);
  }

  void write_model_if_asked() {
    if (options_.model.empty() || state_.version != options_.model_version.value_or(to_) ||
        !replay_.right)
      return;
    const intra::OuterState& state = otherwise_ ? *otherwise_ : state_;
    write_replayed_model(options_.model, source_.config(), layout_, state.anchor,
                         {state.run_id, state.version});
    say("the model of " + version_text(state.version) + (otherwise_ ? ", as changed," : "") +
        " is in " + options_.model.string());
  }

  void tell() {
    const diloco::Round right = state_.version - begun_at_;
    if (replay_.right)
      say(
          fmt::format("{} rounds were computed again, from version {} to {}: every state is the "
                      "one in the ledger",
                      right, begun_at_, state_.version));
  }

  const ReplayOptions& options_;
  const ReplaySource source_;
  const diloco::Layout layout_;
  const intra::OuterRound round_;
  intra::OuterState state_;                       // as it was decided
  std::unique_ptr<intra::OuterState> otherwise_;  // as changed, from that round on
  std::vector<float> before_;                     // the anchor that both began from
  std::future<std::vector<diloco::MappedBytes>> ahead_;
  diloco::Round to_ = 0, begun_at_ = 0, changed_from_ = 0;
  Replay replay_;
};

}  // namespace

intra::OuterRound applying_round(const Config& config, const diloco::Layout& layout) {
  return {intra::OuterRound::Place{},
          config.codec,
          config.outer,
          {.variant = diloco::OverlapOptions::Variant::synchronous,
           .fragments = config.overlap.fragments,
           .order = config.overlap.order,
           .mixing = config.overlap.mixing},
          layout};
}

namespace {

// What `record` applies of the payloads of `listed`.
std::vector<std::span<const std::byte>> bytes_of(const diloco::CommitRecord& record,
                                                 const diloco::CommitRecord& listed,
                                                 std::span<const diloco::MappedBytes> payloads) {
  std::vector<std::span<const std::byte>> bytes;
  if (!listed.sums.empty()) {
    assert(record.participants.size() == listed.participants.size());
    for (const diloco::MappedBytes& sum : payloads) bytes.push_back(sum.bytes());
    return bytes;
  }
  for (const diloco::Participant& one : record.participants) {
    const auto place = std::ranges::find(listed.participants, key_of(one),
                                         [](const auto& other) { return key_of(other); });
    bytes.push_back(
        payloads[static_cast<std::size_t>(place - listed.participants.begin())].bytes());
  }
  return bytes;
}

}  // namespace

void apply_payloads(const intra::OuterRound& round, const diloco::CommitRecord& listed,
                    std::span<const diloco::MappedBytes> payloads, diloco::CommitRecord record,
                    intra::OuterState& state) {
  const auto bytes = bytes_of(record, listed, payloads);
  record.state = state.digest;
  round.apply(*intra::make_solo_collective(), record, bytes, state);
}

Replay replay(const ReplayOptions& options) {
  return Replayer(options).run();
}

bool is_native_model(const Config& config, const diloco::Layout& layout) {
  return intra::fingerprint(diloco::Layout(intra::parameter_tensors(config.model))) ==
         intra::fingerprint(layout);
}

void write_replayed_model(const std::filesystem::path& directory, const Config& config,
                          const diloco::Layout& layout, std::span<const float> params,
                          const NamedVersion& named, intra::StoredAs stored) {
  const std::map<std::string, std::string> metadata{
      {"run", named.run_id},
      {"round", std::to_string(named.version)},
      {"format", "pt"}};  // transformers before 5 refuses a file with metadata that lacks it
  if (is_native_model(config, layout))
    return intra::save_model(directory, config.model, layout, params, metadata, config.origin,
                             stored);
  std::vector<intra::TensorView> tensors;
  for (const diloco::PlacedTensor& tensor : layout.tensors()) {
    tensors.push_back(
        {tensor.spec.name, tensor.spec.shape, params.subspan(tensor.offset, tensor.spec.count())});
  }
  std::filesystem::create_directories(directory);
  intra::write_safetensors(directory / "model.safetensors", tensors, metadata, {}, stored);
}

std::string loss_text(const Config& config, const diloco::Layout& layout,
                      std::span<const float> decided, std::span<const float> changed) {
  if (!is_native_model(config, layout))
    throw ConfigError(
        "--loss: this run trained a model that is not one of `causeway worker`; "
        "write both with --model and measure them there");
  const auto model = intra::make_model(config.model);
  const intra::Dataset dataset(config.data);
  const auto alone = intra::make_solo_collective();
  const auto loss = [&](std::span<const float> params) {
    model->params_changed();
    return intra::validation_loss(*model, params, dataset, config.train.validation_sequences,
                                  *alone);
  };
  return "validation loss: " + format_fixed(loss(decided), 6) + " as decided, " +
         format_fixed(loss(changed), 6) + " as changed";
}

namespace {

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

std::string place_text(const diloco::Layout& layout, std::size_t element) {
  const diloco::PlacedTensor& tensor = layout.tensor_at(element);
  const std::size_t within = element - tensor.offset;
  if (within >= tensor.spec.count()) return "the padding after " + tensor.spec.name;
  return fmt::format("{}, element {}", tensor.spec.name, within);
}

}  // namespace

std::optional<std::string> first_difference(const diloco::Layout& layout,
                                            const intra::OuterState& state,
                                            const std::filesystem::path& file) {
  const intra::SafetensorsReader reader(file);
  std::vector<float> other(layout.size());
  for (const auto& [name, own] :
       {std::pair("anchor", &state.anchor), std::pair("momentum", &state.momentum)}) {
    reader.read(name, other);
    const auto [here, there] = std::ranges::mismatch(*own, other, same_bits);
    if (here == own->end()) continue;
    return std::string(name) + ", " +
           place_text(layout, static_cast<std::size_t>(here - own->begin())) + ": " +
           intra::to_metadata(*there) + " there, " + intra::to_metadata(*here) + " computed";
  }
  return std::nullopt;
}

}  // namespace causeway::run
