// Drives one region through its rounds: does what the coordinator tells it, and asks whoever trains
// for inner steps. The region's own worker (region_worker.h) and the API for other trainers
// (worker.h) are its two users; what they differ in is RoundTrainer.
//
//   join ──► next ──► steps to take ──► done ──► next ... ──► nothing: the run is over
//    ▲         │
//    │         │  Train     K steps; delta, residual, encode; hand over; steps ahead; stored
//    │         │  Continue  steps of nobody's round yet, while the region is cut off
//    │         │  Collect   contribute what those did
//    │         │  Apply     decode, outer step; save now and then
//    │         │  Restore   adopt a snapshot
//    └─────────┘  coordinator lost: recover; all stays in memory, and is saved as well
//
// Which steps come when is the overlap variant's (diloco/maths/outer.h): steps ahead are those
// that are taken while the round is decided.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "diloco/worker/worker_session.h"
#include "intra/outer/contribution_fate.h"
#include "intra/outer/outer_round.h"
#include "intra/outer/outer_state.h"
#include "intra/outer/state_file.h"
#include "intra/worker/gathering.h"
#include "intra/worker/region_saver.h"
#include "intra/worker/round_trainer.h"
#include "intra/worker/unchanged_rounds.h"

namespace causeway::intra {

// Inner steps to take. Each adds one to the state's work.steps.
struct Stint {
  std::uint32_t count = 0;
  std::uint64_t schedule_step = 0;  // of the round, as in diloco::Train
  diloco::DataShare share{};
  bool cut_off = false;  // of a Continue: may be called back
};

// One thread.
class RoundDriver {
 public:
  struct Region {
    std::string name;
    std::filesystem::path directory;
    std::uint32_t rank = 0, world = 1;  // as configured
    std::string coordinator = {};       // on another host, as in diloco::AttachRequest
    std::filesystem::path certificates = {};
    std::string settings = {};      // likewise
    std::uint32_t save_rounds = 1;  // of every fragment, between states on disk and snapshots
    std::uint32_t states_kept = kStatesKept;
    std::uint64_t saved_beside_steps_bytes = kSavedBesideStepsBytes;
  };

  // `state` and `trainer` outlive this.
  RoundDriver(Region region, OuterState& state, RoundTrainer& trainer);

  // To attach with.
  diloco::AttachRequest request() const;
  // The gathering whose instructions are followed until leave(), which it outlives, and the rounds
  // of its ranks, who hold the same state.
  void join(Gathering& gathering, OuterRound round);
  void leave();
  // What a gathering ended with. True, after leave(), if the region is to gather again, as always
  // when the coordinator was lost; false if that will not help.
  bool recover(const std::system_error& error);

  // Steps to take. Nothing: the run is over at the state's version.
  std::optional<Stint> next();
  // Whether to break off the steps under way; always no if they are not a Continue's.
  bool called_back();
  // Steps were taken, all or some; their number is the state's. `finite`: what they led to can be
  // used. A last step that was not finite counts among them.
  void done(bool finite);

  // Where the schedule stands of a state that is not fresh, until an instruction tells.
  void resume_schedule(std::uint64_t step) { train_.schedule_step = step; }

  // State to disk; with Refusal::trains_on perhaps beside the next steps.
  void save(Refusal refusal);
  // State and snapshot to disk; only if both are there, the snapshot to the coordinator.
  void checkpoint(Refusal refusal);
  // As RegionSaver has them.
  void await_saved_spans() { saver_.await_spans(); }
  void write_on_first_rank(const std::string& what, const std::function<void()>& write) {
    saver_.write_on_first_rank(what, write);
  }
  // What the run begins with, for regions that brought other values.
  void offer_initial();
  // Completes `progress` and shows it; best effort.
  void report(diloco::Progress& progress);

  const OuterRound& round() const { return *round_; }

 private:
  enum class Taking { nothing, round, ahead, cut_off };

  void note_earlier_life();
  void note_progress();
  diloco::Instruction ask();
  void prepare_for(const diloco::Instruction& instruction);
  void check_version(const std::string& what, diloco::Round told) const;
  void check_run(const diloco::CommitRecord& record) const;
  std::optional<Stint> follow(const diloco::Train& train);
  std::optional<Stint> follow(const diloco::Continue& order);
  std::optional<Stint> follow(const diloco::Collect& order);
  std::optional<Stint> follow(const diloco::Apply& apply);
  std::optional<Stint> follow(const diloco::Restore& restore);
  std::optional<Stint> follow(const diloco::Finish& finish);

  Stint take(Taking what, std::uint32_t count);
  std::optional<Stint> contribute();
  std::optional<Stint> go_ahead();
  void begin_at(std::uint64_t cursor);
  void drop_work();
  Encoding take_delta();
  void encode_delta(Encoding& made);
  void note_unchanged(const diloco::Contribution& made);
  void hand_over(InFlight& own);
  void await_stored(InFlight& own);
  void adopt(const diloco::Restore& restore);
  void save(RegionSaver::What what, Refusal refusal);
  void look_for_saved();
  void log(const std::vector<Outcome>& outcomes, diloco::Round round) const;
  SavePlan save_plan() const;

  const Region region_;
  OuterState& state_;
  RoundTrainer& trainer_;
  std::optional<OuterRound> round_;  // of the gathering's ranks
  Gathering* gathering_ = nullptr;
  bool has_joined_ = false;  // any
  diloco::Train train_{};    // the round's, as last heard
  Taking taking_ = Taking::nothing;
  std::optional<Stint> more_;  // for next()
  std::uint64_t steps_shown_ = 0;
  bool hand_over_when_saved_ = false;  // the own contribution
  // Gatherings in a row that ended before anything was done: by a rank that failed, and because
  // the coordinator was lost.
  int failures_ = 0;
  std::uint32_t sessions_lost_ = 0;
  std::pair<diloco::Round, std::uint32_t> furthest_;  // version and steps when it last recovered
  std::uint32_t steps_before_ = 0;  // of the open work, before those that were handed out
  UnchangedRounds unchanged_;
  RegionSaver saver_;
};

}  // namespace causeway::intra
