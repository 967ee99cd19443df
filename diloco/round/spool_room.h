// The spool's room: what of all that is needed fits into it, and what gives way where it lacks
// room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "diloco/region/region.h"

namespace causeway::diloco {

// A blob that is not here yet.
struct Need {
  inter::BlobId blob;
  std::string source;   // as in Fetcher::Want
  bool urgent = false;  // the worker can do nothing without it
  // Of an open contribution: what its region asks for with it. 0: the run agreed on the blob.
  std::uint64_t claimed_bytes = 0;
  bool first = false;  // as in Fetcher::Want
  // Whoever names something large must not keep out what others name.
  bool keeps_its_room() const { return urgent && claimed_bytes == 0; }
};

struct Needs {
  std::vector<Need> blobs;    // what matters most comes first
  Round from = 0, later = 0;  // the rounds that the worker applies next: [from, later)
  // It goes on from a snapshot that is on its way. Before `from` lies a gap that nobody can fill.
  bool leap = false;
};

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
