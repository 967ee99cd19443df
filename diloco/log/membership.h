// Who takes part in a run: replicated in the same log as the commit records, changed one vote at a
// time. The only voter may add two at once.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "diloco/log/record.h"

namespace causeway::diloco {

constexpr std::size_t kAddressBytesMax = 300;  // a host name has at most 253

struct Member {
  std::string region;
  std::string address = {};  // advertised host:port; empty: it only dials out
  bool witness = false;      // votes, but neither trains nor holds payloads
  // Names the disk that votes: a region that lost its disk has forgotten what it promised, so its
  // vote lapses until the log names its new one. Empty: takes part without a vote so far.
  std::string incarnation = {};
  bool operator==(const Member&) const = default;
};

// What a run begins with instead of each region's initial weights: a snapshot of another run from
// which it was forked, or of its founder's initial values, which a later membership then says.
struct Origin {
  std::string run_id;  // of the other run; empty: of this one
  Round version = 0;   // there; here it is version 0
  Digest state{};
  inter::BlobId blob{};
  bool operator==(const Origin&) const = default;
};

struct Membership {
  std::vector<Member> members;     // ascending region
  std::optional<Origin> origin{};  // once there is one, the same in all that follow
  bool operator==(const Membership&) const = default;

  const Member* find(const std::string& region) const;
  bool trains(const std::string& region) const;  // a member, and no witness
  bool votes(const std::string& region, const std::string& incarnation) const;
  std::size_t voters() const;
  // A strict majority of all members, voting or not: fewer votes than this decide no round.
  std::size_t majority() const { return members.size() / 2 + 1; }
  std::set<std::string> regions() const;  // that train
  std::size_t region_count() const;       // of them
  // How few of so many regions, one at least, are a majority together with the witnesses that came.
  std::size_t most_of(std::size_t regions) const;
};

// With `member` added or replaced, or with `region` gone.
Membership with(const Membership& membership, Member member);
Membership without(const Membership& membership, const std::string& region);

}  // namespace causeway::diloco
