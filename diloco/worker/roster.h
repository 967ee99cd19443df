// Which ranks of a region make up its group: those that came while none stood. Whoever comes while
// a group stands waits for its end. Pure: it is told who comes and goes, and answers with those
// whose sessions end by that.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace causeway::diloco {

// Member: compares equal to itself alone.
template <typename Member>
class Roster {
 public:
  using Members = std::map<std::uint32_t, Member>;  // by the rank that is configured
  using Leaving = std::vector<Member>;

  bool stands() const { return stands_; }
  // Of the group that stands, or forms.
  const Members& members() const { return members_; }
  // They came while it stands.
  const Members& waiting() const { return waiting_; }

  // One that comes again takes its own place; if that was in the group that stands, the group ends.
  Leaving enter(std::uint32_t rank, Member member) {
    Leaving leaving;
    if (stands_ && members_.contains(rank)) leaving = dissolve();
    Members& where = stands_ ? waiting_ : members_;
    if (const auto old = where.find(rank); old != where.end()) leaving.push_back(old->second);
    where[rank] = std::move(member);
    return leaving;
  }

  // A group that stood ends for all.
  Leaving leave(std::uint32_t rank, const Member& member) {
    if (remove(waiting_, rank, member) || !remove(members_, rank, member) || !stands_) return {};
    return dissolve();
  }

  // The members are the group.
  void stand() { stands_ = true; }

  // Ends the group; those who waited are the first of the next one.
  Leaving dissolve() {
    Leaving leaving;
    for (auto& [rank, member] : members_) leaving.push_back(std::move(member));
    members_ = std::exchange(waiting_, {});
    stands_ = false;
    return leaving;
  }

 private:
  static bool remove(Members& from, std::uint32_t rank, const Member& member) {
    const auto found = from.find(rank);
    if (found == from.end() || found->second != member) return false;
    from.erase(found);
    return true;
  }

  Members members_, waiting_;
  bool stands_ = false;
};

}  // namespace causeway::diloco
