// RoundDriver: from the steps of a round to a contribution that the coordinator has.
#include "diloco/files/fault_point.h"
#include "intra/outer/encoding_log.h"
#include "intra/worker/round_driver.h"

namespace causeway::intra {

// All ranks must come to the same answer, those included that were restarted a moment ago.
SavePlan RoundDriver::save_plan() const {
  return {.every = region_.save_rounds * round_->overlap().fragments};
}

// Of the round's steps.
std::optional<Stint> RoundDriver::contribute() {
  diloco::reached(diloco::ProtocolState::steps_taken);
  Encoding made = take_delta();
  const bool saves = save_plan().when_contributed(state_.version);
  if (round_->overlap().encodes_beside_steps() && state_.work.steps < train_.ahead && !saves) {
    trainer_.beside_next_step([this, made]() mutable {
      encode_delta(made);
      hand_over(*state_.own(0));
    });
    return go_ahead();
  }
  encode_delta(made);
  if (saves) save(Refusal::trains_on);
  hand_over(*state_.own(0));
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
  diloco::reached(diloco::ProtocolState::contribution_encoded);
}

void RoundDriver::hand_over(InFlight& own) {
  own.contribution.run_id = state_.run_id;
  gathering_->tell(
      [&own](auto& session) { session.hand_over(own.contribution, own.payload.sealed()); });
}

void RoundDriver::await_stored(InFlight& own) {
  bool stored = true;  // rank 0 knows
  const auto await_stored = [&stored](auto& session) { stored = session.await_stored(); };
  own.stored = gathering_->tell(await_stored) && stored;
  diloco::reached(diloco::ProtocolState::contribution_stored);
}

}  // namespace causeway::intra
