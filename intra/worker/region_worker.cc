#include "intra/worker/region_worker.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "diloco/files/error.h"
#include "diloco/files/fault_point.h"
#include "intra/base/error.h"
#include "intra/collective/collective.h"
#include "intra/published/checkpoint.h"
#include "intra/step/inner_trainer.h"
#include "intra/step/peak_flops.h"
#include "intra/worker/heal_ranks.h"
#include "intra/worker/make_inner_trainer.h"

namespace causeway::intra {
namespace {

constexpr int kReloadsMax = 3;
// Of the newest step in the rate that displays show.
constexpr double kRateWeight = 0.2;

RoundDriver::Region region_of(const WorkerOptions& options) {
  return {.name = options.region,
          .directory = options.directory,
          .rank = options.rank,
          .world = options.world,
          .coordinator = options.coordinator,
          .certificates = options.certificates,
          .settings = options.settings,
          .save_rounds = options.train.checkpoint_rounds,
          .states_kept = options.train.checkpoints_kept,
          .saved_beside_steps_bytes = options.train.saved_beside_steps_bytes};
}

}  // namespace

RegionWorker::RegionWorker(const WorkerOptions& options, Interrupted interrupted, Attach attach)
    : options_(options),
      interrupted_(std::move(interrupted)),
      attach_(std::move(attach)),
      layout_(parameter_tensors(options.model)),
      state_(options.inner, layout_, kept_by(options)),
      host_spans_(layout_, state_),
      driver_(region_of(options), state_, *this),
      proofs_(options),
      trainer_(make_inner_trainer(options)),
      data_(trainer_->data()) {
  if (options_.train.timed_step_ms > 0) {
    spdlog::warn("timed steps: each takes {} ms and computes nothing; losses are not losses",
                 options_.train.timed_step_ms);
  }
  state_.region = options_.region;
  if (!load()) begin_run();
  driver_.resume_schedule(state_.steps -
                          std::min<std::uint64_t>(state_.steps, state_.step_in_round()));
}

// False: there is no state on disk.
bool RegionWorker::load() {
  if (!load_state(options_.directory, layout_, state_)) return false;
  spdlog::info("resuming from version {}, step {} of the round", state_.version,
               state_.step_in_round());
  return true;
}

OuterRound RegionWorker::make_round() const {
  const Collective& group = gathering_->group();
  return {{.region = options_.region,
           .region_index = static_cast<std::uint32_t>(options_.region_index),
           .rank = group.rank(),
           .world = group.size(),
           .seed = options_.train.seed},
          options_.codec,
          options_.outer,
          options_.overlap,
          layout_};
}

void RegionWorker::start_afresh() {
  const std::string run_id = state_.run_id;
  { const TrainingState left = std::move(state_); }  // there is no room for two
  state_ = TrainingState(options_.inner, layout_, kept_by(options_));
  begin_run();
  state_.run_id = run_id;
  state_.region = options_.region;
}

// Of a state in which nothing happened yet.
void RegionWorker::begin_run() {
  initial_weights(options_, layout_, state_.anchor);
  state_.params = state_.anchor;
  state_.digest = whole_digest(state_);
}

WorkerResult RegionWorker::run() {
  for (;;) {
    // Killed between its result and its end: its coordinator may have ended as well.
    const auto left = result();
    if (left && left->ends(state_.run_id, state_.version)) return *left;
    try {
      gather();
      while (const auto stint = driver_.next()) take(*stint);
      return finish();
    } catch (const std::system_error& error) {
      if (ended_by_others_) {
        spdlog::info("the run is over: another worker of this region left its result");
        return *ended_by_others_;
      }
      if (!driver_.recover(error)) throw;
      trainer_->leave();
      trainer_->host_work().drop();  // it was for this gathering
      gathering_.reset();
    }
  }
}

std::optional<WorkerResult> RegionWorker::result() const {
  const std::optional<WorkerResult> result = read_result(options_.directory);
  return result && result->run_steps == options_.train.steps ? result : std::nullopt;
}

std::optional<WorkerResult> RegionWorker::result_of_others() const {
  std::optional<WorkerResult> theirs = result();
  const bool of_this_run = theirs && !state_.run_id.empty() && theirs->run_id == state_.run_id;
  return of_this_run && theirs->progress.round() >= state_.version ? theirs : std::nullopt;
}

std::unique_ptr<Gathering> RegionWorker::attach() {
  const auto make_group = [this](const diloco::Attachment& attachment,
                                 const std::function<bool()>& given_up) {
    return make_collective({.directory = options_.directory / "gloo",
                            .generation = attachment.generation,
                            .rank = attachment.rank,
                            .world = attachment.world,
                            .deadline = options_.train.rank_deadline,
                            .host = options_.meeting_host,
                            .given_up = given_up});
  };
  // The other ranks may have ended the run while this one was away, and the coordinator with them.
  const auto waiting = [this, silence = Silence()](const std::string& what) mutable {
    if (silence.is_long(what)) ended_by_others_ = result_of_others();
  };
  diloco::AttachRequest request = driver_.request();
  // A rank that was away reads what is there now, and would be refused beside one that does not.
  if (std::exchange(has_attached_, true) && options_.world > 1) trainer_->check_data_is_current();
  request.data = data_ = trainer_->data();
  request.trained_on = state_.trained_on;
  return std::make_unique<Gathering>(
      request, attach_, make_group, [this] { return interrupted_() || ended_by_others_; }, waiting);
}

void RegionWorker::gather() {
  for (int reloads = 0;; ++reloads) {
    gathering_ = attach();
    const Healing agreed = heal_ranks(gathering_->group(), options_.directory, layout_, state_,
                                      options_.train.checkpoints_kept);
    state_.trees = {};  // a rank that comes from disk has none
    if (agreed == Healing::same) break;
    if (reloads == kReloadsMax) {
      throw std::system_error(Errc::bad_checkpoint,
                              "the ranks of this region cannot agree on a state");
    }
    // The coordinator must hear of the version that all really have.
    gathering_.reset();
    if (agreed == Healing::newest) continue;
    spdlog::warn(
        "an outer round broke off, so no rank holds a whole state; all ranks take the one on disk");
    proofs_.drop();
    if (!load()) start_afresh();
  }
  driver_.join(*gathering_, make_round());
  trainer_->join(gathering_->group(), state_);
  diloco::reached(diloco::ProtocolState::attached);
}

// ---- Steps ----

void RegionWorker::take(const Stint& stint) {
  enter("compute");
  trainer_->check_data_unchanged();
  if (stint.cut_off) {
    proofs_.drop();
  } else {
    proofs_.go_on(state_);
  }
  bool finite = true;
  for (std::uint32_t step = 0; step < stint.count && !driver_.called_back(); ++step) {
    finite = inner_step(stint);
    if (!finite) break;
    if (!stint.cut_off) diloco::reached(diloco::ProtocolState::step_taken);
  }
  driver_.done(finite);
}

bool RegionWorker::inner_step(const Stint& stint) {
  const InnerStep step{stint.schedule_step + state_.step_in_round(),
                       state_.work.data_cursor + state_.work.steps * batch().samples, stint.share};
  time_.charge_wait();
  StepOutcome outcome;
  try {
    outcome = trainer_->step(step, interrupted_());
  } catch (const std::system_error& error) {
    if (error.code() != Errc::not_finite) throw;
    if (gathering_->leads()) spdlog::error("round {}: {}", state_.version, error.what());
    ++state_.work.steps;  // its samples are used
    trainer_->host_work().take_held_up_s();
    return false;
  }
  const double seconds = time_.charge_steps(trainer_->host_work().take_held_up_s());
  ++state_.work.steps;
  state_.work.compute_s += seconds;
  state_.spent.in_region_s += outcome.in_region_s;
  ++state_.steps;
  state_.tokens += batch().tokens;
  proofs_.step_taken(state_);
  show(outcome, seconds);
  tell_what_was_read();
  if (data_.of_region) state_.note_data(*data_.of_region);
  if (outcome.stop) stop();
  return true;
}

// Of more data than was read before it attached.
void RegionWorker::tell_what_was_read() {
  if (!data_.of_region || data_.of_region->whole) return;
  const diloco::DataDigests now = trainer_->data();
  if (now != data_) gathering_->tell_data_read(data_ = now);
}

OuterRound::Batch RegionWorker::batch() const {
  const auto samples = static_cast<std::uint64_t>(options_.train.batch);
  return {samples, samples * static_cast<std::uint64_t>(options_.model.context)};
}

void RegionWorker::count_up_to(std::uint64_t steps) {
  state_.steps = std::max(state_.steps, steps);
}

void RegionWorker::beside_next_step(const std::function<void()>& work) {
  trainer_->host_work().put(work);
}

// Where the trainer has them, which then knows what is done to them.
OuterSpans& RegionWorker::spans() {
  OuterSpans* const elsewhere = trainer_->outer_spans();
  if (elsewhere != nullptr) return *elsewhere;
  trainer_->params_changed();  // by whoever asked
  return host_spans_;
}

std::optional<diloco::Digest> RegionWorker::proof() {
  return proofs_.root(state_);
}

// Whatever fragment is next: what is not finite is not contributed.
void RegionWorker::spoil_params() {
  proofs_.drop();
  std::ranges::fill(state_.params, std::numeric_limits<float>::quiet_NaN());
  trainer_->params_changed();
}

void RegionWorker::reset_moments() {
  proofs_.drop();
  for (const std::span<float> moment :
       {state_.optimizer.first_moment(), state_.optimizer.second_moment()}) {
    std::fill(moment.begin(), moment.end(), 0.0F);
  }
  trainer_->moments_changed();
  state_.optimizer_steps = 0;
}

// For whoever chooses K by it (diloco/pacing/k_policy.h).
void RegionWorker::anchor_moved() {
  if (gathering_->leads()) {
    const std::uint64_t all = options_.train.steps, taken = state_.steps;
    const std::uint64_t at = std::max<std::uint64_t>(progress_.step(), taken);  // of the schedule
    const std::string alone =
        taken > all ? fmt::format(" (+{} while it was cut off)", taken - all) : "";
    const std::string loss =
        progress_.has_loss() ? fmt::format(", loss {:.4f}", progress_.loss()) : "";
    spdlog::info("round {} applied: step {} of {}{}{}, {:.0f} tokens/s", state_.version,
                 std::min(at, all), all, alone, loss, progress_.tokens_per_s());
  }
  if (state_.version % options_.overlap.fragments != 0) return;
  validate();
  const std::uint64_t sequences = options_.train.held_out_sequences;
  if (sequences == 0) return;
  const double loss = trainer_->evaluate(spans().settled(Flat::anchor), sequences);
  if (std::isfinite(loss)) state_.held_out_loss = loss;
}

// For whoever watches the run.
void RegionWorker::validate() {
  const std::uint32_t every = options_.train.validate_rounds;
  if (every == 0 || state_.version / options_.overlap.fragments % every != 0) return;
  enter("evaluate");
  const std::span<const float> anchor = spans().settled(Flat::anchor);
  const std::uint64_t sequences = options_.train.validation_sequences;
  const auto common = trainer_->evaluate_common(anchor, sequences);
  progress_.set_val_loss(common ? *common : trainer_->evaluate(anchor, sequences));
  progress_.set_val_version(state_.version);
  enter("apply");
}

// ---- State and result ----

void RegionWorker::replace_state(const std::function<void()>& replace) {
  trainer_->leave();  // the state gets other buffers
  proofs_.drop();
  replace();
  trainer_->join(gathering_->group(), state_);
}

void RegionWorker::settle_state() {
  time_.charge_wait();
  trainer_->settle(Settle::all);
}

StateImage RegionWorker::image() {
  return image_of(layout_, state_);
}

void RegionWorker::hold_back_steps(const std::function<void()>& read) {
  trainer_->host_work().hold_update(read);
}

void RegionWorker::stop() {
  driver_.save(Refusal::throws);
  trainer_->leave();
  throw std::system_error(Errc::interrupted, "interrupted; the state is saved in " +
                                                 checkpoint_directory(options_.directory).string() +
                                                 "; start the same command again to go on");
}

WorkerResult RegionWorker::finish() {
  driver_.checkpoint(Refusal::throws);
  enter("evaluate");
  WorkerResult result = make_result();
  if (std::isfinite(result.progress.val_loss()) && !result.timed_steps) {
    progress_.set_val_loss(result.progress.val_loss());
    progress_.set_val_version(state_.version);
  }
  driver_.write_on_first_rank("writing the result", [&] {
    save_model(checkpoint_directory(options_.directory) / "final", options_.model, layout_,
               state_.anchor, {{"run", state_.run_id}, {"round", std::to_string(state_.version)}},
               options_.origin);
    write_result(options_.directory, result);
    diloco::reached(diloco::ProtocolState::result_written);
  });
  if (gathering_->leads()) enter(diloco::kPhaseDone);
  trainer_->leave();
  return result;
}

WorkerResult RegionWorker::make_result() {
  report();
  WorkerResult result{.progress = progress_,
                      .run_steps = options_.train.steps,
                      .run_id = state_.run_id,
                      .common_val_loss = trainer_->evaluate_common(
                          spans().settled(Flat::anchor), options_.train.validation_sequences),
                      .params_digest = diloco::to_hex(driver_.round().ownership().root(
                          gathering_->group(), spans(), Flat::anchor)),
                      .timed_steps = options_.train.timed_step_ms > 0};
  result.progress.set_step(state_.steps);
  result.progress.set_round(state_.version);
  result.progress.set_tokens_per_s(state_.tokens_per_s());
  fill_in(result.progress, options_, state_, *trainer_);
  result.progress.set_val_loss(
      trainer_->evaluate(spans().settled(Flat::anchor), options_.train.validation_sequences));
  return result;
}

// ---- What it shows ----

void RegionWorker::sat_out(const std::string& tensor, std::uint32_t steps) {
  spdlog::error(
      "round {}: {} became NaN or infinite. This region sits the round out, drops its {} inner "
      "steps and follows the other regions; lower inner.lr or inner.clip_norm",
      state_.version, tensor, steps);
}

void RegionWorker::enter(const std::string& phase) {
  time_.enter(phase);
  progress_.set_phase(phase);
  report();
}

void RegionWorker::waiting(const std::string&) {
  report();
}

void RegionWorker::show(const StepOutcome& outcome, double seconds) {
  const double rate = seconds > 0 ? static_cast<double>(batch().tokens) / seconds : 0;
  progress_.set_tokens_per_s(progress_.tokens_per_s() +
                             (progress_.tokens_per_s() == 0 ? 1 : kRateWeight) *
                                 (rate - progress_.tokens_per_s()));
  if (options_.train.timed_step_ms == 0) progress_.set_loss(outcome.loss);
  report();
}

void RegionWorker::report() {
  time_.charge_wait();
  progress_.set_tokens(state_.steps * batch().tokens);
  fill_in(progress_, options_, state_, *trainer_);
  driver_.report(progress_);
}

void fill_in(diloco::Progress& progress, const WorkerOptions& options, const TrainingState& state,
             const InnerTrainer& trainer) {
  show(state.spent, progress);
  progress.set_memory_peak_bytes(memory_peak_bytes());
  progress.set_device_memory_peak_bytes(trainer.device_memory_peak_bytes());
  progress.set_mfu(model_flops_utilisation(options.model, progress.tokens_per_s(), trainer.device(),
                                           options.world)
                       .value_or(0));
}

}  // namespace causeway::intra
