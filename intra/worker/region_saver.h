// Saves a region's state and snapshot, all ranks together: the first one writes, and it alone knows
// whether the disk took it; the others go its way. What is on disk is offered to the coordinator.
// All ranks call the same at the same place, but for what says otherwise.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "diloco/maths/layout.h"
#include "intra/outer/outer_state.h"
#include "intra/worker/gathering.h"
#include "intra/worker/round_trainer.h"
#include "intra/worker/state_saver.h"

namespace causeway::intra {

// One thread, but for those that write.
class RegionSaver {
 public:
  // `state` and `trainer` outlive this.
  RegionSaver(const StateSaver::Place& place, OuterState& state, RoundTrainer& trainer);

  // The gathering outlives leave(), the layout this.
  void join(Gathering& gathering, const diloco::Layout& layout);
  void leave();
  // A coordinator that was killed may not have stored the newest snapshot.
  void offer_again();

  // As StateSaver has it.
  void changed() { saver_.changed(); }
  // Nothing of what is on disk is to be relied on, or offered: the run may have taken it back.
  void forget_saved();

  enum class What : std::uint8_t { state, state_and_snapshot, snapshot };
  // Nothing is under way. With Refusal::trains_on perhaps beside the next steps.
  void save(What what, Refusal refusal);
  bool under_way() const { return saver_.under_way(); }  // on this rank
  void await_save();
  // Until a save under way needs no span of the state any more. Whoever changes one calls it.
  void await_spans();
  void look();  // whether what was under way is over; any rank, whenever

  // The first rank calls `write`, in a thread of its own, while the others wait for it.
  void write_on_first_rank(const std::string& what, const std::function<void()>& write);
  // A replay of the run begins from it, where all that one needs is kept.
  void archive_state();

  double seconds() const { return save_s_; }  // that saves held this thread up for

 private:
  struct Offered {
    diloco::Round version = 0;
    diloco::Digest state{};
    bool operator==(const Offered&) const = default;
  };

  std::optional<StateSaver::Saved> begin_save(What what, Refusal refusal);
  using IsDone = std::function<bool(std::chrono::milliseconds at_most)>;  // waits so long
  void meet_until(const std::string& what, const IsDone& is_done);
  void await_read(bool (StateSaver::*is_read)(std::chrono::milliseconds at_most));
  void end_save();
  void note(const StateSaver::Saved& saved);
  void offer(const Offered& snapshot);

  const std::filesystem::path directory_;  // the region's
  OuterState& state_;
  RoundTrainer& trainer_;
  const diloco::Layout* layout_ = nullptr;
  Gathering* gathering_ = nullptr;
  bool unread_ = false;  // by a save beside steps, perhaps; all ranks say the same
  double save_s_ = 0;
  std::optional<Offered> offered_;  // the snapshot that is on disk
  Saving archiving_{"the state for replays"};
  StateSaver saver_;
};

}  // namespace causeway::intra
