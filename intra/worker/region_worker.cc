#include "intra/worker/region_worker.h"
#include "intra/worker/make_inner_trainer.h"

#include <algorithm>
#include <system_error>
#include <utility>
#include <variant>

#include <spdlog/spdlog.h>

#include "diloco/files/error.h"
#include "diloco/files/fault_point.h"
#include "diloco/files/file_io.h"
#include "intra/base/error.h"
#include "intra/collective/together.h"
#include "intra/published/checkpoint.h"
#include "intra/worker/state_agreement.h"
#include "intra/worker/worker_result.h"

namespace causeway::intra {
namespace {

// A region whose ranks fail again and again without a step between has a problem that attaching
// again will not solve.
constexpr int kFailuresMax = 8;
constexpr int kReloadsMax = 3;

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

}  // namespace

RegionWorker::RegionWorker(const WorkerOptions& options, Interrupted interrupted, Attach attach)
    : options_(options),
      interrupted_(std::move(interrupted)),
      attach_(std::move(attach)),
      layout_(parameter_tensors(options.model)),
      state_(options.inner, layout_),
      host_spans_(layout_, state_),
      round_(make_round(0, 1)),
      trainer_(make_inner_trainer(options)) {
  if (options_.train.timed_step_ms > 0) {
    spdlog::warn("timed steps: each takes {} ms and computes nothing; losses are not losses",
                 options_.train.timed_step_ms);
  }
  open_state();
  schedule_step_ = state_.steps - std::min<std::uint64_t>(state_.steps, state_.step_in_round());
}

// The state on disk, or fresh weights.
void RegionWorker::open_state() {
  if (load_state(options_.directory, layout_, state_)) {
    spdlog::info("resuming from version {}, step {} of the round", state_.version,
                 state_.step_in_round());
    return;
  }
  start_afresh();
}

OuterRound RegionWorker::make_round(std::size_t rank, std::size_t world) const {
  return {{.region = options_.region,
           .region_index = static_cast<std::uint32_t>(options_.region_index),
           .rank = rank,
           .world = world,
           .seed = options_.train.seed},
          options_.codec,
          options_.outer,
          options_.overlap,
          layout_};
}

// Where the trainer has them.
OuterSpans& RegionWorker::spans() {
  OuterSpans* const elsewhere = trainer_->outer_spans();
  return elsewhere != nullptr ? *elsewhere : host_spans_;
}

void RegionWorker::start_afresh() {
  const std::string run_id = state_.run_id;
  state_ = TrainingState(options_.inner, layout_);
  initial_weights(options_, layout_, state_.anchor);
  state_.params = state_.anchor;
  state_.digest = whole_digest(state_);
  state_.run_id = run_id;
}

WorkerResult RegionWorker::run() {
  for (;;) {
    // Killed between its result and its end: its coordinator may have ended as well.
    if (const auto result = result_of(state_)) return *result;
    try {
      gather();
      return follow();
    } catch (const std::system_error& error) {
      const bool passing =
          error.code() == diloco::Errc::coordinator_lost || error.code() == Errc::collective;
      if (!passing || ++failures_ > kFailuresMax) throw;
      recover(error);
    }
  }
}

std::optional<WorkerResult> RegionWorker::result_of(const TrainingState& state) const {
  const std::optional<WorkerResult> result = read_result(options_.directory);
  const bool of_this_run = result && result->rounds == state.version &&
                           result->run_steps == options_.train.steps && state.version > 0;
  return of_this_run ? result : std::nullopt;
}

void RegionWorker::gather() {
  for (int reloads = 0;; ++reloads) {
    gathering_ = std::make_unique<Gathering>(options_, request(), attach_, interrupted_);
    const Agreement agreed =
        agree_on_state(gathering_->group(), options_.directory, layout_, state_);
    state_.leaves = {};  // a rank that comes from disk has none
    if (agreed == Agreement::same) break;
    if (reloads == kReloadsMax) {
      throw std::system_error(Errc::bad_checkpoint,
                              "the ranks of this region cannot agree on a state");
    }
    // The coordinator must hear of the version that all really have.
    gathering_.reset();
    if (agreed == Agreement::newest) continue;
    spdlog::warn(
        "an outer round broke off, so no rank holds a whole state; all ranks take the one on disk");
    open_state();
  }
  const Collective& group = gathering_->group();
  round_ = make_round(group.rank(), group.size());
  note_earlier_life();
  trainer_->join(gathering_->group(), state_);
  diloco::reached(diloco::ProtocolState::attached);
}

void RegionWorker::note_earlier_life() {
  if (!gathering_->attachment().contributed || state_.contributed()) return;
  if (gathering_->leads()) {
    spdlog::warn(
        "round {}: this region contributed before a restart, with a state that was not saved. The "
        "residual and the work since are dropped ({} inner steps)",
        state_.version, state_.work.steps);
  }
  state_.forget_earlier_life(options_.region);
}

diloco::AttachRequest RegionWorker::request() {
  const InFlight* const own = state_.own(0);
  return {.socket = options_.directory / "worker.sock",
          .region = options_.region,
          .rank = options_.rank,
          .world = options_.world,
          .version = state_.version,
          .state = state_.digest,
          .has_lineage = !state_.run_id.empty(),
          .run_id = state_.run_id,
          .contributed = own != nullptr && own->stored,
          .coordinator = options_.coordinator,
          .certificates = options_.certificates};
}

void RegionWorker::recover(const std::system_error& error) {
  spdlog::warn("{}; this worker attaches again", error.what());
  if (gathering_ && error.code() == diloco::Errc::coordinator_lost) {
    // A signal may come while the coordinator is away.
    try {
      save();
    } catch (const std::system_error& failure) {
      if (failure.code() != Errc::collective) throw;
      spdlog::warn("the state was not saved: {}", failure.what());
    }
  }
  trainer_->leave();
  gathering_.reset();
}

WorkerResult RegionWorker::follow() {
  for (;;) {
    enter("wait");
    diloco::Instruction instruction = [&] {
      try {
        return gathering_->next([this] { report(); });
      } catch (const std::system_error& error) {
        if (error.code() == Errc::interrupted) stop();
        throw;
      }
    }();
    stopwatch_.start();
    if (state_.run_id.empty()) state_.run_id = gathering_->attachment().run_id;
    if (const auto* finish = std::get_if<diloco::Finish>(&instruction))
      return this->finish(*finish);
    std::visit(Overloaded{[this](const diloco::Train& train) { this->train(train); },
                          [this](const diloco::Continue& order) { go_on(order); },
                          [this](const diloco::Collect& order) { collect(order); },
                          [this](const diloco::Apply& apply) { this->apply(apply); },
                          [this](const diloco::Restore& restore) { this->restore(restore); },
                          [](const diloco::Finish&) {}},
               instruction);
    failures_ = 0;
  }
}

void RegionWorker::restore(const diloco::Restore& restore) {
  enter("apply");
  diloco::reached(diloco::ProtocolState::restore_received);
  spdlog::warn(
      "this region takes the run's version {} in place of its own version {}. The residual and the "
      "work since the last round are dropped ({} inner steps); contributions under way still count "
      "if a round lists them",
      restore.version, state_.version, state_.work.steps);
  trainer_->leave();  // the state gets other buffers
  const auto file = checkpoint_directory(options_.directory) /
                    ("restore-" + std::to_string(options_.rank) + ".safetensors");
  together(gathering_->group(), "restoring", [&] {
    if (restore.snapshot.bytes().empty()) return start_afresh();
    std::filesystem::create_directories(file.parent_path());
    diloco::replace_file(file, restore.snapshot.bytes(), diloco::Durability::visible);
    adopt_snapshot(file, layout_, restore.version, restore.state, state_);
    std::filesystem::remove(file);
  });
  trainer_->join(gathering_->group(), state_);
  gathering_->tell([&](auto& session) { session.applied(state_.version, state_.digest); });
  save();
  diloco::reached(diloco::ProtocolState::restored);
}

WorkerResult RegionWorker::finish(const diloco::Finish& finish) {
  check_version("to end at version", finish.version);
  diloco::reached(diloco::ProtocolState::finish_received);
  checkpoint();
  enter("evaluate");
  WorkerResult result{.steps = state_.steps,
                      .tokens = state_.steps * batch().tokens,
                      .rounds = state_.version,
                      .run_steps = options_.train.steps,
                      .val_loss = trainer_->evaluate(spans().settled(Flat::anchor),
                                                     options_.train.validation_sequences),
                      .compute_s = state_.compute_s,
                      .wait_s = state_.wait_s,
                      .in_region_s = state_.in_region_s,
                      .outer_s = state_.outer_s,
                      .memory_peak_bytes = memory_peak_bytes(),
                      .device_memory_peak_bytes = trainer_->device_memory_peak_bytes(),
                      .tokens_per_s = state_.tokens_per_s(),
                      .mfu = mfu(state_.tokens_per_s()),
                      .params_digest = diloco::to_hex(
                          round_.ownership().root(gathering_->group(), spans(), Flat::anchor)),
                      .timed_steps = options_.train.timed_step_ms > 0};
  together(gathering_->group(), "writing the result", [&] {
    if (!gathering_->leads()) return;
    save_model(checkpoint_directory(options_.directory) / "final", options_.model, layout_,
               state_.anchor, {{"run", state_.run_id}, {"round", std::to_string(state_.version)}},
               options_.origin);
    write_result(options_.directory, result);
    diloco::reached(diloco::ProtocolState::result_written);
    enter(diloco::kPhaseDone);
  });
  trainer_->leave();
  return result;
}

void RegionWorker::save() {
  charge_wait();
  trainer_->settle(Settle::all);
  together(gathering_->group(), "saving the state", [&] {
    if (gathering_->leads())
      save_state(options_.directory, layout_, state_, options_.train.checkpoints_kept);
  });
}

void RegionWorker::checkpoint() {
  save();
  diloco::reached(diloco::ProtocolState::state_saved);
  together(gathering_->group(), "saving the snapshot", [&] {
    if (gathering_->leads()) save_snapshot(options_.directory, layout_, state_);
  });
  diloco::reached(diloco::ProtocolState::snapshot_written);
  gathering_->tell([this](auto& session) {
    session.offer_snapshot(state_.version, state_.digest, snapshot_file(options_.directory));
  });
}

void RegionWorker::stop() {
  save();
  trainer_->leave();
  throw std::system_error(Errc::interrupted, "interrupted; the state is saved in " +
                                                 checkpoint_directory(options_.directory).string() +
                                                 "; start the same command again to go on");
}

}  // namespace causeway::intra
