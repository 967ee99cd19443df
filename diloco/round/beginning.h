// What a run begins with: that all regions train the same tensors, that their programs begin with
// the same values, and that the first round waits for those who start slowly. Of `causeway worker`
// the values follow from the configuration, which is compared elsewhere; of a program only it knows
// them.
//
// The founder is right. Where another region brings other values, the leader puts the founder's
// state of version 0 into the log, as of a forked run, and everybody else takes its snapshot.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "diloco/region/region.h"

namespace causeway::diloco {

class Beginning {
 public:
  explicit Beginning(Region& region) : region_(region) {}

  // ---- What happened ----
  void on_attached();  // this region's worker
  void hear(const std::string& peer, Tensors piece);
  void tell(const std::string& peer);  // whose link came up
  // Ends this region if what it trains is not what the others train.
  void check(Time now);

  // ---- What follows ----
  // The founder's worker is to offer a snapshot of version 0.
  bool needs_initial_snapshot() const;
  // The first round is not begun yet.
  bool holds_back(Time now) const;
  std::optional<Time> deadline() const;
  std::string waiting_for(Time now) const;  // empty while nothing is held back
  // It said what it trains, and neither it nor this region will be refused for that.
  bool fits(const std::string& peer) const;
  // For the leader: an entry that says what the run begins with, if that has to be said.
  std::optional<Membership> proposal() const;

 private:
  std::optional<std::string> founder() const;  // that is in the run, and trains
  bool has_told(const std::string& peer) const;
  std::optional<Applied> applied_by(const std::string& region) const;
  std::optional<Snapshot> snapshot_of(const std::string& region) const;
  bool takes_the_founders() const;
  std::vector<std::string> absent() const;
  void check_against(const std::string& peer);
  void check_values(const std::string& peer, const NamedTensors& there);
  std::optional<std::string> other_value(const NamedTensors& there) const;  // that counts

  struct Told {
    NamedTensors tensors;
    std::string other;    // other_tensor() of this region's and these; empty until they are there
    NamedTensors coming;  // the pieces so far
    std::size_t coming_bytes = 0;
  };

  Region& region_;
  std::map<std::string, Told> told_;  // by the others
  std::optional<Time> ready_at_;      // for the first round
  bool said_ = false;                 // that it takes the founder's values
};

}  // namespace causeway::diloco
