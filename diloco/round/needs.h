// What a region still has to get and from whom, most urgent first: what its worker applies next,
// what is contributed to the open round, and what its worker applies later.
#pragma once

#include <cstdint>
#include <optional>
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

// The payloads of rounds [from, version) are here or at a peer that can be asked.
bool can_replay(const Region& region, Round from);

// The worker applies the rounds from `from` on. `snapshot`: one that is to be fetched too; with
// `leap` it comes before all else.
Needs needs_of(const Region& region, Round from, bool leap, const std::optional<Need>& snapshot);

}  // namespace causeway::diloco
