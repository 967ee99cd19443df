// The snapshots that peers offer: which of them may be taken, and of whom first. Whoever announced
// one that was something else comes last, and in the end is not believed any more.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "diloco/region/region.h"

namespace causeway::diloco {

class SnapshotOffers {
 public:
  explicit SnapshotOffers(const Region& region) : region_(region) {}

  // Of those that are wanted: one that is on its way already, or else the newest of whoever
  // announced the fewest that were something else.
  std::optional<Snapshot> best(const std::function<bool(const Snapshot&)>& is_wanted) const;
  // There is a link to it, and it has the snapshot.
  std::optional<std::string> source_of(const Snapshot& snapshot) const;

  // Who offers the target answers for what its bytes are: all that did since it was chosen.
  void note_announcers(const Snapshot& target);
  void forget_announcers() { announcers_.clear(); }
  // It was something else than announced. Its bytes may be something that others name.
  void refuse(const Snapshot& snapshot);

 private:
  std::optional<Snapshot> begun_of(const Status& peer) const;
  bool may_be_taken(const std::string& peer, const Snapshot& offered) const;
  int wrong_announced_by(const std::string& peer) const;
  bool is_remade(const Snapshot& offered) const;
  bool contradicted(const Applied& state) const;

  const Region& region_;
  std::set<std::string> announcers_;            // of the target
  std::set<Snapshot> refused_;                  // they were not what was announced
  std::map<std::string, int> wrong_announced_;  // how many of them, by region
};

}  // namespace causeway::diloco
