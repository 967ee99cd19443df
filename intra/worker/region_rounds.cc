// RegionWorker: what the coordinator's instructions on rounds make it do.
#include <algorithm>
#include <limits>
#include <system_error>
#include <utility>

#include <spdlog/spdlog.h>

#include "diloco/files/error.h"
#include "diloco/files/fault_point.h"
#include "intra/base/error.h"
#include "intra/collective/together.h"
#include "intra/worker/region_worker.h"
#include "intra/worker/worker_result.h"

namespace causeway::intra {
namespace {

// Weight of the newest step in the rate that displays show.
constexpr double kRateWeight = 0.2;

}  // namespace

void RegionWorker::check_version(const std::string& what, diloco::Round told) const {
  if (told == state_.version) return;
  throw std::system_error(diloco::Errc::lineage,
                          "the coordinator says " + what + " " + std::to_string(told) +
                              " but this region holds version " + std::to_string(state_.version));
}

void RegionWorker::train(const diloco::Train& train) {
  check_version("to train round", train.round);
  schedule_step_ = train.schedule_step;
  const InFlight* const own = state_.own(0);
  if (own != nullptr && own->payload.empty() && !own->contribution.sits_out)
    state_.drop_own(0);  // made before a restart, and lost by the coordinator since
  // After a restart, or when the coordinator was lost or had no room, part of the round or all of
  // it may already be done.
  if (state_.own(0) == nullptr) {
    take_steps(train);
    Encoding made = take_delta();
    const bool saves = save_plan().when_contributed(state_.version);
    if (options_.overlap.encodes_beside_steps() && state_.work.steps < train.ahead && !saves) {
      go_ahead(train, [&] {
        encode_delta(made);
        hand_over(*state_.own(0));
      });
      return await_stored(*state_.own(0));
    }
    encode_delta(made);
    if (saves) save();
  }
  hand_over(*state_.own(0));
  go_ahead(train, {});
  await_stored(*state_.own(0));
}

void RegionWorker::take_steps(const diloco::Train& train) {
  begin_at(train.data_cursor);
  if (state_.work.steps < train.k) enter("compute");
  while (state_.work.steps < train.k) {
    if (!inner_step(train.schedule_step, train.share)) {
      sit_out();
      break;
    }
    diloco::reached(diloco::ProtocolState::step_taken);
  }
  diloco::reached(diloco::ProtocolState::steps_taken);
}

// An earlier worker of this region may have died after it contributed and before it saved: the run
// knows of its steps, and so do the cursors.
void RegionWorker::count_up_to(std::uint64_t cursor) {
  state_.steps = std::max(state_.steps, cursor / batch().samples);
}

void RegionWorker::begin_at(std::uint64_t cursor) {
  count_up_to(cursor);
  if (state_.work.steps == 0) state_.work.data_cursor = cursor;
}

// All ranks must come to the same answer, those included that were restarted a moment ago.
SavePlan RegionWorker::save_plan() const {
  return {.every = options_.train.checkpoint_rounds * options_.overlap.fragments};
}

// The round is decided meanwhile. `meanwhile`: beside the first step.
void RegionWorker::go_ahead(const diloco::Train& train, std::function<void()> meanwhile) {
  if (state_.work.steps < train.ahead) enter("compute");
  while (state_.work.steps < train.ahead) {
    if (!inner_step(train.schedule_step, train.share, std::exchange(meanwhile, {}))) {
      sit_out();
      break;
    }
    diloco::reached(diloco::ProtocolState::step_taken);
  }
}

// Whatever fragment is next: what is not finite is not contributed.
void RegionWorker::sit_out() {
  std::ranges::fill(state_.params, std::numeric_limits<float>::quiet_NaN());
  trainer_->params_changed();
}

// From the parameters that were contributed, if any were.
void RegionWorker::go_on(const diloco::Continue& order) {
  check_version("to train on in round", order.round);
  if (state_.contributed() && state_.mark.empty()) spans().copy(Flat::params, Flat::mark);
  begin_at(order.data_cursor);
  enter("compute");
  for (std::uint32_t step = 0; step < order.k && !gathering_->called_back(); ++step) {
    if (!inner_step(order.schedule_step, order.share)) {
      drop_work();
      break;
    }
  }
  diloco::reached(diloco::ProtocolState::went_on);
}

// Back to where the steps since the last contribution began.
void RegionWorker::drop_work() {
  spans().copy(state_.mark.empty() ? Flat::anchor : Flat::mark, Flat::params);
  state_.work.data_cursor += state_.work.steps * batch().samples;
  state_.work.steps = 0;
  reset_moments();
}

void RegionWorker::collect(const diloco::Collect& order) {
  check_version("to collect round", order.round);
  if (state_.work.steps > 0) encode();
  for (InFlight& own : state_.in_flight) {
    const bool missing = own.contribution.round == state_.version && !own.stored &&
                         (!own.payload.empty() || own.contribution.sits_out);
    if (!missing) continue;
    hand_over(own);
    await_stored(own);
  }
  diloco::reached(diloco::ProtocolState::collected);
}

bool RegionWorker::inner_step(std::uint64_t schedule_step, const diloco::DataShare& share,
                              std::function<void()> meanwhile) {
  const InnerStep step{schedule_step + state_.step_in_round(),
                       state_.work.data_cursor + state_.work.steps * batch().samples, share,
                       std::move(meanwhile)};
  charge_wait();
  StepOutcome outcome;
  try {
    outcome = trainer_->step(step, interrupted_());
  } catch (const std::system_error& error) {
    if (error.code() != Errc::not_finite) throw;
    if (gathering_->leads()) spdlog::error("round {}: {}", state_.version, error.what());
    ++state_.work.steps;  // its samples are used
    return false;
  }
  const double seconds = charge_step(outcome);
  const std::uint64_t tokens = batch().tokens;
  ++state_.work.steps;
  state_.work.compute_s += seconds;
  state_.in_region_s += outcome.in_region_s;
  ++state_.steps;
  state_.tokens += tokens;
  const double rate = seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
  progress_.tokens_per_s +=
      (progress_.tokens_per_s == 0 ? 1 : kRateWeight) * (rate - progress_.tokens_per_s);
  progress_.loss = outcome.loss;
  report();
  if (outcome.stop) stop();
  return true;
}

void RegionWorker::encode() {
  Encoding made = take_delta();
  encode_delta(made);
}

Encoding RegionWorker::take_delta() {
  enter("encode");
  Encoding made = round_.take_delta(gathering_->group(), batch(), state_, spans());
  if (made.not_finite.empty()) return made;
  reset_moments();
  if (gathering_->leads()) {
    spdlog::error(
        "round {}: {} became NaN or infinite. This region sits the round out, drops its {} inner "
        "steps and follows the other regions; lower inner.lr or inner.clip_norm",
        state_.version, made.not_finite, state_.own(made.part)->contribution.steps);
  }
  return made;
}

void RegionWorker::encode_delta(Encoding& made) {
  round_.encode_delta(gathering_->group(), state_, spans(), made);
  if (made.not_finite.empty() && gathering_->leads())
    record_encodings(options_.directory, state_.version, made.tensors);
  diloco::reached(diloco::ProtocolState::contribution_encoded);
}

// What led to numbers that are not finite may be in the optimizer as well.
void RegionWorker::reset_moments() {
  for (const std::span<float> moment :
       {state_.optimizer.first_moment(), state_.optimizer.second_moment()}) {
    std::fill(moment.begin(), moment.end(), 0.0F);
  }
  trainer_->moments_changed();
  state_.optimizer_steps = 0;
}

void RegionWorker::hand_over(InFlight& own) {
  own.contribution.run_id = state_.run_id;
  gathering_->tell(
      [&own](auto& session) { session.hand_over(own.contribution, own.payload.sealed()); });
}

void RegionWorker::await_stored(InFlight& own) {
  bool stored = true;  // rank 0 knows
  const auto await_stored = [&stored](auto& session) { stored = session.await_stored(); };
  own.stored = gathering_->tell(await_stored) && stored;
  diloco::reached(diloco::ProtocolState::contribution_stored);
}

OuterRound::Batch RegionWorker::batch() const {
  const auto samples = static_cast<std::uint64_t>(options_.train.batch);
  return {samples, samples * static_cast<std::uint64_t>(options_.model.context)};
}

void RegionWorker::apply(const diloco::Apply& apply) {
  check_version("to apply round", apply.record.round);
  if (apply.record.run_id != state_.run_id) {
    throw std::system_error(diloco::Errc::lineage, "a commit record of run " + apply.record.run_id +
                                                       " came to a region of run " + state_.run_id);
  }
  for (const diloco::Participant& listed : apply.record.participants) {
    if (listed.region == options_.region) count_up_to(listed.data_cursor);
  }
  enter("apply");
  diloco::reached(diloco::ProtocolState::record_received);
  std::vector<std::span<const std::byte>> payloads;
  for (const diloco::MappedBytes& payload : apply.payloads) payloads.push_back(payload.bytes());
  const std::vector<Outcome> outcomes =
      round_.apply(gathering_->group(), apply.record, payloads, state_, spans());
  evaluate_held_out();
  log(outcomes, apply.record.round);
  diloco::reached(diloco::ProtocolState::record_applied);
  gathering_->tell([&](auto& session) { session.applied(state_.version, state_.digest); });
  diloco::reached(diloco::ProtocolState::apply_told);
  if (save_plan().when_applied(state_.version)) checkpoint();
}

// For whoever chooses K by it (diloco/pacing/k_policy.h).
void RegionWorker::evaluate_held_out() {
  const std::uint64_t sequences = options_.train.held_out_sequences;
  if (sequences == 0 || state_.version % options_.overlap.fragments != 0) return;
  const double loss = trainer_->evaluate(spans().settled(Flat::anchor), sequences);
  if (std::isfinite(loss)) state_.held_out_loss = loss;
}

}  // namespace causeway::intra
