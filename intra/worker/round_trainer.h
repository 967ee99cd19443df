// Who takes the inner steps between the rounds that RoundDriver drives: a region's own worker, or a
// program with a training loop of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "diloco/maths/digest.h"
#include "intra/outer/outer_round.h"
#include "intra/outer/outer_spans.h"
#include "intra/outer/state_file.h"

namespace causeway::intra {

class RoundTrainer {
 public:
  virtual ~RoundTrainer() = default;

  // Of the state that the driver was given, wherever they are.
  virtual OuterSpans& spans() = 0;
  virtual OuterRound::Batch batch() const = 0;

  // What the region does now, as diloco::Progress has it.
  virtual void enter(const std::string& phase) = 0;
  // Shows that again.
  virtual void report() = 0;
  // The coordinator is waited for.
  virtual void waiting(const std::string& what) = 0;
  // The region took so many steps over the whole run, perhaps in an earlier life.
  virtual void count_up_to(std::uint64_t steps) = 0;

  // For the host to do beside the next step. A trainer that has no better place for it does it now.
  virtual void beside_next_step(const std::function<void()>& work) { work(); }
  // What the last steps led to is not finite: make sure that the parameters show it.
  virtual void spoil_params() {}
  // Numbers that were not finite led here: they may be in the optimizer as well.
  virtual void reset_moments() {}
  // Root over the states on the way of the open work, which becomes a contribution now; none: the
  // trainer proves nothing.
  virtual std::optional<diloco::Digest> proof() { return std::nullopt; }
  // The delta of so many steps is not finite; `tensor` is the first that made it so.
  virtual void sat_out(const std::string& tensor, std::uint32_t steps) = 0;
  // The anchor is that of another round.
  virtual void anchor_moved() {}

  // Calls `replace`, which gives the state other contents, in other buffers perhaps.
  virtual void replace_state(const std::function<void()>& replace) { replace(); }
  // The state becomes that of a run that begins.
  virtual void start_afresh() = 0;
  // Called by all ranks before the state is written.
  virtual void settle_state() {}
  // The state as it is to be written; rank 0 alone does.
  virtual StateImage image() = 0;
  // It is being written: what the next steps change of it stays as it is until `read` returned,
  // which all ranks call at the same place, and in which they meet.
  virtual void hold_back_steps(const std::function<void()>& read) { read(); }
  // There is a snapshot: start_afresh() is not needed any more.
  virtual void checkpointed() {}
  // Somebody asked to stop during a wait: saves and throws.
  [[noreturn]] virtual void stop() = 0;
};

}  // namespace causeway::intra
