// What a commit record makes of a region's contributions (docs/worker-socket.md), as
// far as it follows from the record alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "diloco/log/record.h"
#include "intra/outer/outer_state.h"

namespace causeway::intra {

enum class ContributionFate {
  delivered,  // listed, in its round or late
  returned,   // expired: back in the residual, to be sent later
  dropped,    // lost: not contributed in time, or expired where nothing can be returned
  forgotten,  // listed, but not known here: what it left in the residual is dropped
};

// The fate of one contribution, or of steps that none holds.
struct Outcome {
  ContributionFate fate;
  diloco::Round round = 0;  // that it was made for
  std::uint32_t part = 0;
  std::uint32_t steps = 0;
  bool operator==(const Outcome&) const = default;
};

// Takes what the record settles out of `state.in_flight`. What must go back into the residual is
// returned with its payload for the caller to do; it decodes.
struct Settling {
  std::string region;
  bool feedback = false;
  // The parameters will be the anchor's: open work is dropped.
  bool follows_anchor = true;
};
struct Settled {
  std::vector<Outcome> outcomes;
  std::vector<InFlight> returned;
  bool forget_residual = false;  // before anything is returned
};
Settled settle(const diloco::CommitRecord& record, const Settling& how, OuterState& state);

// One sentence for the log, for who must know that work was not delivered as it was sent. Empty:
// nothing out of the ordinary. `round`: of the record.
std::string sentence(const Outcome& outcome, diloco::Round round);

}  // namespace causeway::intra
