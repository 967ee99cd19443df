#include "intra/worker/worker.h"

#include <algorithm>
#include <cassert>
#include <system_error>
#include <utility>
#include <variant>

#include <spdlog/spdlog.h>

#include "diloco/files/error.h"
#include "diloco/files/fault_point.h"
#include "diloco/files/file_io.h"
#include "diloco/worker/worker_session.h"
#include "intra/base/error.h"
#include "intra/base/stopwatch.h"
#include "intra/collective/collective.h"
#include "intra/outer/outer_round.h"
#include "intra/outer/run_settings.h"
#include "intra/outer/state_file.h"

namespace causeway {

using intra::Fate;
using intra::InFlight;

namespace {

std::vector<diloco::TensorSpec> specs(const std::vector<Tensor>& tensors) {
  std::vector<diloco::TensorSpec> specs;
  for (const Tensor& tensor : tensors) specs.push_back({tensor.name, tensor.shape});
  return specs;
}

}  // namespace

class Worker::Implementation {
 public:
  Implementation(WorkerSettings settings, std::span<const float> initial)
      : settings_(std::move(settings)),
        layout_(specs(settings_.tensors)),
        state_(layout_),
        alone_(intra::make_solo_collective()) {
    open_state(initial);
    attach();
  }

  std::optional<Steps> next(std::span<float> params) {
    for (;;) {
      try {
        if (const auto steps = go_ahead()) {
          write(params);
          stopwatch_.charge(wait_s_);
          return steps;
        }
        diloco::Instruction instruction = ask();
        stopwatch_.start();
        if (const auto* finish = std::get_if<diloco::Finish>(&instruction)) {
          end(*finish);
          write(params);
          return std::nullopt;
        }
        const auto steps = std::visit([this](auto& told) { return follow(told); }, instruction);
        if (!steps) continue;
        write(params);
        stopwatch_.charge(wait_s_);
        return steps;
      } catch (const std::system_error& error) {
        if (error.code() != diloco::Errc::coordinator_lost) throw;
        attach_again(error);
      }
    }
  }

  bool called_back() {
    if (lost_) return !contributes_;
    if (!may_be_called_back_) return false;
    try {
      return session_->called_back();
    } catch (const std::system_error& error) {
      if (error.code() != diloco::Errc::coordinator_lost) throw;
      return lost_ = true;
    }
  }

  void done(std::span<const float> params, std::uint32_t count, double loss) {
    may_be_called_back_ = false;
    state_.work.compute_s += stopwatch_.charge(compute_s_);
    state_.work.steps += count;
    steps_ += count;
    loss_ = loss;
    read(params);
    if (!contributes_) return;
    if (count > 0) make_contribution();
    contributes_ = false;
    try {
      send_all();
    } catch (const std::system_error& error) {
      if (error.code() != diloco::Errc::coordinator_lost) throw;
      lost_ = true;
    }
  }

 private:
  void open_state(std::span<const float> initial) {
    if (load_outer_state(settings_.directory, layout_, state_)) return;
    state_ = intra::OuterState(layout_);
    read(initial);
    state_.anchor = state_.params;
    state_.digest = whole_digest(state_);
  }

  void attach() {
    const InFlight* own = state_.own(0);
    const diloco::AttachRequest request{.socket = settings_.directory / "worker.sock",
                                        .region = settings_.region,
                                        .version = state_.version,
                                        .state = state_.digest,
                                        .has_lineage = !state_.run_id.empty(),
                                        .run_id = state_.run_id,
                                        .contributed = own != nullptr && own->stored,
                                        .coordinator = settings_.coordinator,
                                        .certificates = settings_.certificates};
    session_ = diloco::WorkerSession::attach(request, settings_.keep_waiting);
    lost_ = false;
    const diloco::Attachment& attachment = session_->attachment();
    if (!round_) open_round(intra::parse_run_settings(attachment.settings));
    if (attachment.contributed && !state_.contributed()) {
      spdlog::warn(
          "round {}: this region contributed before a restart; the residual of that time is "
          "dropped",
          state_.version);
      state_.forget_earlier_life(settings_.region);
    }
    if (state_.run_id.empty()) state_.run_id = attachment.run_id;
  }

  void open_round(const intra::RunSettings& run) {
    const auto place = std::find(run.regions.begin(), run.regions.end(), settings_.region);
    const auto index = static_cast<std::uint32_t>(place - run.regions.begin());
    const intra::OuterRound::Place here{
        .region = settings_.region, .region_index = index, .seed = run.seed};
    round_.emplace(here, run.codec, run.outer, run.overlap, layout_);
  }

  void attach_again(const std::system_error& error) {
    spdlog::warn("{}; this worker attaches again", error.what());
    save();
    attach();
  }

  diloco::Instruction ask() {
    if (lost_) {
      throw std::system_error(diloco::Errc::coordinator_lost, "the coordinator closed the session");
    }
    report("wait");
    try {
      return session_->next(settings_.keep_waiting);
    } catch (const std::system_error& error) {
      if (error.code() == std::errc::operation_canceled) save();
      throw;
    }
  }

  // Steps of the next round while the open one is decided.
  std::optional<Steps> go_ahead() {
    if (lost_ || !state_.contributed() || state_.work.steps >= ahead_) return std::nullopt;
    return steps(ahead_ - state_.work.steps, schedule_step_, share_);
  }

  // ---- Instructions: steps to take, or nothing ----

  std::optional<Steps> follow(const diloco::Train& train) {
    check(train.round);
    ahead_ = train.ahead;
    schedule_step_ = train.schedule_step;
    share_ = train.share;
    InFlight* own = state_.own(0);
    if (own != nullptr && own->payload.empty() && !own->contribution.sits_out) {
      state_.drop_own(0);  // made before a restart, and lost by the coordinator since
      own = nullptr;
    }
    if (own != nullptr) {
      own->stored = false;
      send_all();
      return std::nullopt;
    }
    if (state_.work.steps >= train.k) {
      make_contribution();
      send_all();
      return std::nullopt;
    }
    if (state_.work.steps == 0) state_.work.data_cursor = train.data_cursor;
    contributes_ = true;
    return steps(train.k - state_.work.steps, train.schedule_step, train.share);
  }

  std::optional<Steps> follow(const diloco::Continue& order) {
    check(order.round);
    if (state_.contributed() && state_.mark.empty()) state_.mark = state_.params;
    if (state_.work.steps == 0) state_.work.data_cursor = order.data_cursor;
    ahead_ = 0;
    contributes_ = false;
    may_be_called_back_ = true;
    return steps(order.k, order.schedule_step, order.share);
  }

  std::optional<Steps> follow(const diloco::Collect& order) {
    check(order.round);
    if (state_.work.steps > 0) encode();
    send_all();
    return std::nullopt;
  }

  std::optional<Steps> follow(const diloco::Apply& apply) {
    check(apply.record.round);
    report("apply");
    std::vector<std::span<const std::byte>> payloads;
    for (const diloco::MappedBytes& payload : apply.payloads) payloads.push_back(payload.bytes());
    for (const intra::Outcome& outcome : round_->apply(*alone_, apply.record, payloads, state_)) {
      const std::string told = sentence(outcome, apply.record.round);
      if (!told.empty()) spdlog::warn(told);
    }
    session_->applied(state_.version, state_.digest);
    diloco::reached(diloco::ProtocolState::apply_told);
    if (save_plan().when_applied(state_.version)) snapshot();
    return std::nullopt;
  }

  std::optional<Steps> follow(const diloco::Restore& restore) {
    if (restore.snapshot.bytes().empty()) {
      throw std::system_error(
          diloco::Errc::divergence,
          "this worker's state is not the one that the run agreed on, and there is no "
          "snapshot yet; start it again in an empty directory");
    }
    spdlog::warn("this region takes the run's version {} in place of its own version {}",
                 restore.version, state_.version);
    const auto file = intra::checkpoint_directory(settings_.directory) / "restore.safetensors";
    std::filesystem::create_directories(file.parent_path());
    diloco::replace_file(file, restore.snapshot.bytes(), diloco::Durability::visible);
    adopt_snapshot(file, layout_, restore.version, restore.state, state_);
    std::filesystem::remove(file);
    session_->applied(state_.version, state_.digest);
    save();
    return std::nullopt;
  }

  std::optional<Steps> follow(const diloco::Finish&) { return std::nullopt; }

  void end(const diloco::Finish& finish) {
    check(finish.version);
    snapshot();
    report("done");
  }

  void check(diloco::Round round) const {
    if (round == state_.version) return;
    throw std::system_error(diloco::Errc::lineage,
                            "the coordinator speaks of round " + std::to_string(round) +
                                " but this region holds version " + std::to_string(state_.version));
  }

  Steps steps(std::uint32_t count, std::uint64_t schedule_step, const diloco::DataShare& share) {
    report("compute");
    return {
        .round = state_.version,
        .count = count,
        .first_sample = state_.work.data_cursor + state_.work.steps * settings_.samples_per_step,
        .schedule_step = schedule_step + state_.step_in_round(),
        .part = share.index,
        .parts = std::max<std::uint32_t>(1, share.count),
        .pass = share.pass,
        .pass_begin = share.begin};
  }

  // ---- What they need ----

  void encode() {
    report("encode");
    const auto encoding =
        round_->encode(*alone_, {settings_.samples_per_step, settings_.tokens_per_step}, state_);
    if (encoding.not_finite.empty()) return;
    spdlog::error(
        "round {}: {} became NaN or infinite; this region sits the round out and follows the "
        "others",
        state_.version, encoding.not_finite);
  }

  intra::SavePlan save_plan() const { return {.every = settings_.save_rounds}; }

  void make_contribution() {
    encode();
    if (save_plan().when_contributed(state_.version)) save();
  }

  // What the coordinator lacks of this round.
  void send_all() {
    for (InFlight& own : state_.in_flight) {
      const bool sendable = !own.payload.empty() || own.contribution.sits_out;
      if (own.stored || own.contribution.round != state_.version || !sendable) continue;
      own.stored = session_->contribute(own.contribution, own.payload.sealed());
    }
  }

  void save() { save_outer_state(settings_.directory, layout_, state_, {}, {}); }

  void snapshot() {
    save();
    save_snapshot(settings_.directory, layout_, state_);
    session_->offer_snapshot(state_.version, state_.digest,
                             intra::snapshot_file(settings_.directory));
  }

  void report(const char* phase) {
    stopwatch_.charge(wait_s_);
    const std::uint64_t tokens = steps_ * settings_.tokens_per_step;
    session_->report({.step = steps_,
                      .round = state_.version,
                      .loss = loss_,
                      .tokens_per_s = compute_s_ > 0 ? static_cast<double>(tokens) / compute_s_ : 0,
                      .tokens = tokens,
                      .compute_s = compute_s_,
                      .wait_s = wait_s_,
                      .phase = phase});
  }

  // Between the trainer's tensors, one after the other, and the flat layout, which has gaps.
  template <typename Copy>
  void each_tensor(std::size_t given, Copy&& copy) const {
    if (given != layout_.parameter_count()) {
      throw std::invalid_argument("the parameters have " + std::to_string(given) +
                                  " elements where the tensors have " +
                                  std::to_string(layout_.parameter_count()));
    }
    std::size_t at = 0;
    for (const Tensor& tensor : settings_.tensors) {
      const diloco::PlacedTensor& placed = layout_.find(tensor.name);
      copy(at, placed.offset, placed.spec.count());
      at += placed.spec.count();
    }
  }
  void read(std::span<const float> params) {
    each_tensor(params.size(), [&](std::size_t at, std::size_t offset, std::size_t count) {
      std::copy_n(params.data() + at, count, state_.params.data() + offset);
    });
  }
  void write(std::span<float> params) const {
    each_tensor(params.size(), [&](std::size_t at, std::size_t offset, std::size_t count) {
      std::copy_n(state_.params.data() + offset, count, params.data() + at);
    });
  }

  WorkerSettings settings_;
  diloco::Layout layout_;
  intra::OuterState state_;
  std::unique_ptr<intra::Collective> alone_;
  std::optional<intra::OuterRound> round_;  // since the run's settings are known
  std::unique_ptr<diloco::WorkerSession> session_;
  bool lost_ = false;         // the session: to be told by next()
  bool contributes_ = false;  // the steps under way end in a contribution
  bool may_be_called_back_ = false;
  std::uint32_t ahead_ = 0;  // of the last Train, with where its schedule stood
  std::uint64_t schedule_step_ = 0;
  diloco::DataShare share_;
  intra::Stopwatch stopwatch_;
  std::uint64_t steps_ = 0;
  double loss_ = 0, compute_s_ = 0, wait_s_ = 0;
};

Worker::Worker(WorkerSettings settings, std::span<const float> initial)
    : implementation_(std::make_unique<Implementation>(std::move(settings), initial)) {}

Worker::~Worker() = default;

std::optional<Steps> Worker::next(std::span<float> params) {
  return implementation_->next(params);
}

bool Worker::called_back() {
  return implementation_->called_back();
}

void Worker::done(std::span<const float> params, std::uint32_t count, double loss) {
  implementation_->done(params, count, loss);
}

}  // namespace causeway
