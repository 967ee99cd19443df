// How contributions and word of them go around: the own one is saved, announced to every peer and
// pushed; whoever holds a payload tells the leader; a record settles what it lists.
//
// Among a few regions the leader hears of every payload at once. Among many that would be a message
// of each region for each other one, in every round. So arrivals are gathered: a region tells of
// them when they are as many as it still lacks, which halves what is left each time, and at the
// latest after a while. A leader that waits for all of them decides no later for that.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "diloco/region/region.h"
#include "diloco/round/catch_up.h"
#include "diloco/round/leader.h"

namespace causeway::diloco {

class Exchange {
 public:
  // All must outlive this.
  Exchange(Region& region, Leader& leader, CatchUp& catch_up)
      : region_(region), leader_(leader), catch_up_(catch_up) {}

  // ---- This region's own ----
  void add_own(const Contribution& made, Time now);
  // The outcome of what this region contributed last is known, and all of it is here.
  void time_outcome(Time now);

  // ---- Others' ----
  void hear(const std::string& peer, const Holding& holding, Time now);
  void tell(const std::string& peer);  // whatever was said before may not have arrived
  void tell_new_leader(Time now);      // it knows only what it hears

  // ---- Payloads and records ----
  void on_arrived(const inter::BlobId& blob, Time now);
  // Its copy here was found to be damaged, and is gone: it is to be fetched again.
  void on_lost(const inter::BlobId& blob, Time now);
  bool on_progress(const inter::BlobId& blob, std::uint64_t received_bytes, Time now);  // it grew
  void settle(const CommitRecord& record);
  // The next round is open.
  void open_next(const CommitRecord& record, Time now);

  // ---- Gathered word for the leader ----
  void tell_gathered(Time now);  // if it is time to
  std::optional<Time> gathered_until() const;

 private:
  bool is_news(const std::string& peer, const Contribution& contribution);
  bool displaces_older(const ContributionKey& key);
  void announce(const Contribution& contribution);
  void push(const std::string& peer, const Contribution& contribution);
  void discard(const std::vector<inter::BlobId>& blobs);
  void report(const Contribution& contribution, std::uint64_t received_bytes, Time now);
  void report_all_of(const inter::BlobId& blob, Time now);
  void gather(const ContributionKey& key, Time now);
  bool is_here(const ContributionKey& key) const;
  std::size_t lacking() const;

  Region& region_;
  Leader& leader_;
  CatchUp& catch_up_;
  std::set<ContributionKey> gathered_;  // as the leader does not know them yet
  Time gathered_since_{0};
  bool urgent_ = false;  // what is gathered cannot wait
};

}  // namespace causeway::diloco
