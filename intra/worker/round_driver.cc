#include "intra/worker/round_driver.h"

#include <algorithm>
#include <span>
#include <system_error>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "diloco/files/error.h"
#include "diloco/files/fault_point.h"
#include "intra/base/error.h"
#include "intra/collective/collective.h"
#include "intra/outer/encoding_log.h"

namespace causeway::intra {
namespace {

// Ranks that fail again and again without a step between have a problem that attaching again will
// not solve. A coordinator is waited for, however often it goes.
constexpr int kFailuresMax = 8;

}  // namespace

RoundDriver::RoundDriver(Region region, OuterState& state, RoundTrainer& trainer)
    : region_(std::move(region)),
      state_(state),
      trainer_(trainer),
      saver_({.directory = region_.directory,
              .states_kept = region_.states_kept,
              .beside_steps_bytes = region_.saved_beside_steps_bytes},
             state, trainer) {}

// ---- Gatherings ----

diloco::AttachRequest RoundDriver::request() const {
  const InFlight* const own = state_.own(0);
  const bool lacks = std::ranges::any_of(
      state_.in_flight, [this](const InFlight& made) { return state_.is_undelivered(made); });
  return {.socket = region_.directory / "worker.sock",
          .region = region_.name,
          .rank = region_.rank,
          .world = region_.world,
          .version = state_.version,
          .state = state_.digest,
          .has_lineage = !state_.run_id.empty(),
          .run_id = state_.run_id,
          .contributed = own != nullptr && own->stored,
          .open_work = state_.work.steps > 0 || lacks,
          .coordinator = region_.coordinator,
          .certificates = region_.certificates,
          .again = has_joined_,
          .settings = region_.settings,
          .sessions_lost = sessions_lost_};
}

void RoundDriver::join(Gathering& gathering, OuterRound round) {
  gathering_ = &gathering;
  has_joined_ = true;
  round_.emplace(std::move(round));
  saver_.join(gathering, round_->ownership().layout());
  note_earlier_life();
  saver_.offer_again();
}

void RoundDriver::leave() {
  hand_over_when_saved_ = false;
  saver_.leave();
  gathering_ = nullptr;
  taking_ = Taking::nothing;
  more_.reset();
}

void RoundDriver::note_earlier_life() {
  if (!gathering_->attachment().contributed || state_.contributed()) return;
  if (gathering_->leads()) {
    spdlog::warn(
        "round {}: this region contributed before a restart, with a state that was not saved. The "
        "residual and the work since are dropped ({} inner steps)",
        state_.version, state_.work.steps);
  }
  state_.forget_earlier_life(region_.name);
}

bool RoundDriver::recover(const std::system_error& error) {
  const bool lost = error.code() == diloco::Errc::coordinator_lost;
  if (!lost && error.code() != Errc::collective) return false;
  // Steps of a stint that was cut short count too, but none that was lost before.
  const auto reached = std::pair(state_.version, state_.work.steps);
  if (reached > furthest_) failures_ = 0;
  furthest_ = std::max(furthest_, reached);
  if (lost) ++sessions_lost_;
  if (!lost) ++failures_;
  if (failures_ > kFailuresMax) {
    spdlog::error(
        "the ranks of this region lost each other {} times without a step in between, so this "
        "worker ends. The coordinator's log names the rank that left first, and the log of that "
        "rank says why",
        failures_);
    return false;
  }
  const std::string often =
      sessions_lost_ > 1 ? fmt::format(" ({} times since it did anything)", sessions_lost_) : "";
  spdlog::warn("{}; this worker attaches again{}", error.what(), often);
  if (gathering_ != nullptr && lost) {
    // A signal may come while the coordinator is away.
    try {
      save(Refusal::trains_on);
    } catch (const std::system_error& failure) {
      if (failure.code() != Errc::collective) throw;
      spdlog::warn("the state was not saved: {}", failure.what());
    }
  }
  leave();
  return true;
}

// ---- Instructions ----

std::optional<Stint> RoundDriver::next() {
  while (!more_) {
    look_for_saved();
    trainer_.enter("wait");
    const diloco::Instruction instruction = ask();
    prepare_for(instruction);
    more_ = std::visit([this](const auto& told) { return follow(told); }, instruction);
    if (std::holds_alternative<diloco::Finish>(instruction)) return std::nullopt;
  }
  saver_.changed();  // by the steps that follow
  steps_before_ = state_.work.steps;
  return std::exchange(more_, std::nullopt);
}

// What was lost until now was no sign of a fault that stays.
void RoundDriver::note_progress() {
  failures_ = 0;
  sessions_lost_ = 0;
}

// All but the end changes the state, and all but steps may change any span of it.
void RoundDriver::prepare_for(const diloco::Instruction& instruction) {
  if (std::holds_alternative<diloco::Finish>(instruction)) return;
  saver_.changed();
  if (!std::holds_alternative<diloco::Train>(instruction)) await_saved_spans();
}

diloco::Instruction RoundDriver::ask() {
  try {
    const auto waiting = [this](const std::string& what) {
      look_for_saved();
      trainer_.waiting(what);
    };
    auto instruction = gathering_->next(waiting, state_.step_in_round());
    // Not before: fresh weights belong to no run until it has something for them to do.
    if (state_.run_id.empty()) state_.run_id = gathering_->attachment().run_id;
    return instruction;
  } catch (const std::system_error& error) {
    if (error.code() == Errc::interrupted) trainer_.stop();
    throw;
  }
}

void RoundDriver::check_version(const std::string& what, diloco::Round told) const {
  if (told == state_.version) return;
  throw std::system_error(diloco::Errc::lineage,
                          fmt::format("the coordinator says {} {} but this region holds version {}",
                                      what, told, state_.version));
}

void RoundDriver::check_run(const diloco::CommitRecord& record) const {
  if (record.run_id == state_.run_id) return;
  throw std::system_error(diloco::Errc::lineage, "a commit record of run " + record.run_id +
                                                     " came to a region of run " + state_.run_id);
}

std::optional<Stint> RoundDriver::follow(const diloco::Train& train) {
  check_version("to train round", train.round);
  train_ = train;
  const InFlight* own = state_.own(0);
  if (own != nullptr && own->payload.empty() && !own->contribution.sits_out) {
    state_.drop_own(0);  // made before a restart, and lost by the coordinator since
    own = nullptr;
  }
  // After a restart, or when the coordinator was lost or had no room, part of the round or all of
  // it may already be done.
  if (own != nullptr) {
    hand_over(*state_.own(0));
    return go_ahead();
  }
  begin_at(train.data_cursor);
  if (state_.work.steps < train.k) return take(Taking::round, train.k);
  return contribute();
}

// From the parameters that were contributed, if any were.
std::optional<Stint> RoundDriver::follow(const diloco::Continue& order) {
  check_version("to train on in round", order.round);
  if (state_.contributed() && state_.mark.empty()) trainer_.spans().copy(Flat::params, Flat::mark);
  begin_at(order.data_cursor);
  taking_ = Taking::cut_off;
  return Stint{order.k, order.schedule_step, order.share, true};
}

std::optional<Stint> RoundDriver::follow(const diloco::Collect& order) {
  check_version("to collect round", order.round);
  if (state_.work.steps > 0) {
    Encoding made = take_delta();
    encode_delta(made);
  }
  for (InFlight& own : state_.in_flight) {
    if (!state_.is_undelivered(own)) continue;
    hand_over(own);
    await_stored(own);
  }
  diloco::reached(diloco::ProtocolState::collected);
  return std::nullopt;
}

std::optional<Stint> RoundDriver::follow(const diloco::Apply& apply) {
  const diloco::CommitRecord& record = apply.record;
  check_version("to apply round", record.round);
  check_run(record);
  for (const diloco::Participant& listed : record.participants) {
    if (listed.region == region_.name)
      trainer_.count_up_to(listed.data_cursor / trainer_.batch().samples);
  }
  trainer_.enter("apply");
  diloco::reached(diloco::ProtocolState::record_received);
  std::vector<std::span<const std::byte>> payloads;
  for (const diloco::MappedBytes& payload : apply.payloads) payloads.push_back(payload.bytes());
  if (state_.version == 0 && record.state == state_.digest) saver_.archive_state();
  const std::vector<Outcome> outcomes =
      round_->apply(gathering_->group(), record, payloads, state_, trainer_.spans());
  note_progress();
  trainer_.anchor_moved();
  log(outcomes, record.round);
  diloco::reached(diloco::ProtocolState::record_applied);
  gathering_->tell([&](auto& session) { session.applied(state_.version, state_.digest); });
  diloco::reached(diloco::ProtocolState::apply_told);
  if (save_plan().when_applied(state_.version)) checkpoint(Refusal::trains_on);
  return std::nullopt;
}

std::optional<Stint> RoundDriver::follow(const diloco::Restore& restore) {
  trainer_.enter("apply");
  diloco::reached(diloco::ProtocolState::restore_received);
  spdlog::warn(
      "this region takes the run's version {} in place of its own version {}. The residual and the "
      "work since the last round are dropped ({} inner steps); contributions under way still count "
      "if a round lists them",
      restore.version, state_.version, state_.work.steps);
  saver_.await_save();
  saver_.forget_saved();
  trainer_.replace_state(
      [&] { together(gathering_->group(), "restoring", [&] { adopt(restore); }); });
  if (state_.version > 0) saver_.archive_state();
  gathering_->tell([&](auto& session) { session.applied(state_.version, state_.digest); });
  save(Refusal::trains_on);
  diloco::reached(diloco::ProtocolState::restored);
  return std::nullopt;
}

void RoundDriver::adopt(const diloco::Restore& restore) {
  if (restore.snapshot.bytes().empty()) return trainer_.start_afresh();
  const StateReader snapshot(fmt::format("the run's state of version {}", restore.version),
                             restore.snapshot.bytes());
  adopt_snapshot(snapshot, round_->ownership().layout(), restore.version, restore.state, state_);
}

std::optional<Stint> RoundDriver::follow(const diloco::Finish& finish) {
  check_version("to end at version", finish.version);
  diloco::reached(diloco::ProtocolState::finish_received);
  return std::nullopt;
}

// ---- Steps ----

// Up to `count` steps of open work.
Stint RoundDriver::take(Taking what, std::uint32_t count) {
  taking_ = what;
  return {count - state_.work.steps, train_.schedule_step, train_.share};
}

// An earlier worker of this region may have died after it contributed and before it saved: the run
// knows of its steps, and so do the cursors. What this one has in flight the coordinator may not
// know: its disk was full. Of two contributions with the same samples only one would count.
void RoundDriver::begin_at(std::uint64_t cursor) {
  trainer_.count_up_to(cursor / trainer_.batch().samples);
  if (state_.work.steps > 0) return;
  for (const InFlight& own : state_.in_flight)
    cursor = std::max(cursor, own.contribution.data_cursor);
  state_.work.data_cursor = cursor;
}

bool RoundDriver::called_back() {
  look_for_saved();
  return taking_ == Taking::cut_off && gathering_->called_back();
}

void RoundDriver::done(bool finite) {
  if (state_.work.steps > steps_before_) note_progress();
  saver_.changed();
  if (!finite) await_saved_spans();
  switch (std::exchange(taking_, Taking::nothing)) {
    case Taking::nothing:
      return;
    case Taking::round:
      if (!finite) trainer_.spoil_params();
      if (state_.work.steps > 0) more_ = contribute();
      return;
    case Taking::ahead:
      if (!finite) trainer_.spoil_params();
      return await_stored(*state_.own(0));
    case Taking::cut_off:
      if (!finite) drop_work();
      diloco::reached(diloco::ProtocolState::went_on);
  }
}

// Back to where the steps since the last contribution began.
void RoundDriver::drop_work() {
  trainer_.spans().copy(state_.mark.empty() ? Flat::anchor : Flat::mark, Flat::params);
  state_.work.data_cursor += state_.work.steps * trainer_.batch().samples;
  state_.work.steps = 0;
  trainer_.reset_moments();
}

// ---- What it keeps and shows ----

void RoundDriver::save(Refusal refusal) {
  save(RegionSaver::What::state, refusal);
}

void RoundDriver::checkpoint(Refusal refusal) {
  save(RegionSaver::What::state_and_snapshot, refusal);
}

void RoundDriver::offer_initial() {
  save(RegionSaver::What::snapshot, Refusal::trains_on);
}

void RoundDriver::save(RegionSaver::What what, Refusal refusal) {
  saver_.await_save();  // of the one before
  look_for_saved();     // a region that is stopped hands over what it still has
  saver_.save(what, refusal);
}

void RoundDriver::look_for_saved() {
  saver_.look();
  if (!saver_.under_way() && std::exchange(hand_over_when_saved_, false)) hand_over(*state_.own(0));
}

// Work that was not delivered is never lost silently.
void RoundDriver::log(const std::vector<Outcome>& outcomes, diloco::Round round) const {
  if (!gathering_->leads()) return;
  for (const Outcome& outcome : outcomes) {
    const std::string told = sentence(outcome, round);
    if (told.empty()) continue;
    spdlog::log(
        outcome.fate == ContributionFate::delivered ? spdlog::level::info : spdlog::level::warn,
        told);
  }
}

void RoundDriver::report(diloco::Progress& progress) {
  if (gathering_ == nullptr) return;
  steps_shown_ = std::max(steps_shown_, train_.schedule_step + state_.step_in_round());
  progress.set_step(steps_shown_);
  progress.set_round(state_.version);
  progress.set_save_s(saver_.seconds());
  gathering_->tell([&](auto& session) { session.report(progress); });
}

// ---- From the steps of a round to a contribution that the coordinator has ----

// All ranks must come to the same answer, those included that were restarted a moment ago.
SavePlan RoundDriver::save_plan() const {
  return {.every = region_.save_rounds * round_->overlap().fragments};
}

// Of the round's steps.
std::optional<Stint> RoundDriver::contribute() {
  diloco::reached(diloco::ProtocolState::steps_taken);
  await_saved_spans();
  const std::optional<diloco::Digest> proof = trainer_.proof();
  Encoding made = take_delta();
  if (made.not_finite.empty()) state_.own(made.part)->contribution.proof = proof;
  const bool saves = save_plan().when_contributed();
  if (round_->overlap().encodes_beside_steps() && state_.work.steps < train_.ahead && !saves) {
    trainer_.beside_next_step([this, made]() mutable {
      encode_delta(made);
      hand_over(*state_.own(0));
    });
    return go_ahead();
  }
  encode_delta(made);
  if (saves) save(Refusal::trains_on);
  hand_over_when_saved_ = saves && saver_.under_way();
  if (!hand_over_when_saved_) hand_over(*state_.own(0));
  return go_ahead();
}

// The round is decided meanwhile.
std::optional<Stint> RoundDriver::go_ahead() {
  if (state_.work.steps < train_.ahead) return take(Taking::ahead, train_.ahead);
  await_stored(*state_.own(0));
  return std::nullopt;
}

Encoding RoundDriver::take_delta() {
  trainer_.enter("encode");
  Encoding made =
      round_->take_delta(gathering_->group(), trainer_.batch(), state_, trainer_.spans());
  if (made.not_finite.empty()) return made;
  trainer_.reset_moments();
  if (gathering_->leads())
    trainer_.sat_out(made.not_finite, state_.own(made.part)->contribution.steps);
  return made;
}

void RoundDriver::encode_delta(Encoding& made) {
  round_->encode_delta(gathering_->group(), state_, trainer_.spans(), made);
  if (made.not_finite.empty() && gathering_->leads())
    log_encodings(region_.directory, state_.version, made.tensors);
  note_unchanged(state_.own(made.part)->contribution);
  diloco::reached(diloco::ProtocolState::contribution_encoded);
}

void RoundDriver::note_unchanged(const diloco::Contribution& made) {
  if (!unchanged_.add(made, round_->overlap().fragments) || !gathering_->leads()) return;
  spdlog::warn(
      "no parameter changed in the {} steps of round {}: does the program train the tensors that "
      "it gave to the worker? An optimizer's step must write into these. A learning rate of 0 has "
      "the same effect",
      made.steps, made.round);
}

void RoundDriver::hand_over(InFlight& own) {
  saver_.changed();
  own.contribution.run_id = state_.run_id;
  gathering_->tell(
      [&own](auto& session) { session.hand_over(own.contribution, own.payload.sealed()); });
}

void RoundDriver::await_stored(InFlight& own) {
  if (save_plan().when_contributed()) saver_.await_save();
  look_for_saved();  // hands over what had to be saved before
  saver_.changed();
  bool stored = true;  // rank 0 knows
  const auto await_stored = [&stored](auto& session) { stored = session.await_stored(); };
  own.stored = gathering_->tell(await_stored) && stored;
  if (own.stored) note_progress();
  diloco::reached(diloco::ProtocolState::contribution_stored);
}

}  // namespace causeway::intra
