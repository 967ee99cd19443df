// Where everything is kept: payloads that records list and this region never had, because it was
// away, or joined later. One after the other is fetched from whoever has it, so that a replay finds
// no gap.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "inter/blob/spool.h"

#include "diloco/ledger/ledger.h"

namespace causeway::diloco {

class ArchiveFill {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Fetch = std::function<void(const std::string& peer, const inter::BlobId& blob)>;

  // All must outlive it.
  ArchiveFill(std::filesystem::path region_directory, const Ledger& ledger,
              const inter::Spool& spool, Fetch fetch)
      : directory_(std::move(region_directory)),
        ledger_(ledger),
        spool_(spool),
        fetch_(std::move(fetch)) {}

  // To be called now and then. `applied`: rounds before it are of no use to the worker any more, so
  // nobody else here fetches their payloads. `up`: peers that can be asked.
  void look(Round applied, const std::vector<std::string>& up, TimePoint now);
  // The spool is to let go of a blob that nothing else names. One that is fetched for the archive
  // is kept there first, if all of it is here; true: the rest of it is awaited, and has room.
  bool awaits(const inter::BlobId& blob);

 private:
  struct Want {
    TimePoint ask_at{};
    std::size_t asked = 0;
    std::uint64_t received_bytes = 0;
  };
  bool is_kept(const inter::BlobId& blob) const;
  void keep_arrived();
  bool has_room_for(const inter::BlobId& blob) const;
  void find_more(Round applied, TimePoint now);
  void ask(const std::vector<std::string>& up, TimePoint now);
  void tell_of_gap();

  std::filesystem::path directory_;
  const Ledger& ledger_;
  const inter::Spool& spool_;
  Fetch fetch_;
  Index next_ = 1;     // entries before it were looked at
  Round blocked_ = 0;  // until the worker is beyond this round, there are no more
  std::map<inter::BlobId, Want> wanted_;
  std::size_t fetched_ = 0;
  std::set<inter::BlobId> nobodys_;  // that no peer has
  bool told_of_gap_ = false;         // since a payload was fetched
  TimePoint again_at_{};             // those are asked for
};

}  // namespace causeway::diloco
