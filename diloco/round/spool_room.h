// The spool's room: what of all that is needed fits into it, and what gives way where it lacks
// room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "diloco/region/region.h"
#include "diloco/round/needs.h"

namespace causeway::diloco {

class SpoolRoom {
 public:
  explicit SpoolRoom(Region& region) : region_(region) {}

  bool never_fits(const inter::BlobId& blob) const;
  // What does not fit is not asked for, so that no peer sends it in vain. What has begun has its
  // room.
  std::map<inter::BlobId, Fetcher::Want> fitting(const std::vector<Need>& needs) const;
  bool lacks(std::uint64_t bytes) const { return region_.spool.room_bytes() < bytes; }
  // Lets go of what is needed least, as long as it lacks so many bytes.
  void make(std::uint64_t bytes, const Needs& needs);
  // Makes room for what is urgent. Returns whether it lacked: other things may be needed now.
  bool make_for(const Needs& needs);

 private:
  std::uint64_t kept_free_bytes() const;
  void give_up_begun(std::uint64_t bytes, const std::function<bool(const inter::BlobId&)>& can_go);
  void give_up_beyond_shares(std::uint64_t bytes);
  void give_up_rounds(std::uint64_t bytes, const Needs& needs);
  void give_up_listed(Round round);
  void give_up_for_smaller(const std::vector<Need>& needs);
  bool is_of_use(Round round) const;
  bool held_elsewhere(Round round) const;
  bool is_past(const std::string& peer, Round round) const;
  bool are_enough(std::ptrdiff_t others) const;

  Region& region_;
};

}  // namespace causeway::diloco
