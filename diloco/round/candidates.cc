#include "diloco/round/candidates.h"

#include <algorithm>
#include <utility>

namespace causeway::diloco {

void Candidates::set_summers(Summers summers) {
  summers_ = std::move(summers);
  for (auto& [key, candidate] : by_key_) {
    const std::map<std::string, std::uint64_t> known = candidate.received_bytes;
    for (const auto& [holder, bytes] : known) set_bytes(candidate, holder, bytes);
  }
}

bool Candidates::add(const Contribution& contribution, const std::string& holder,
                     std::uint64_t received_bytes) {
  Candidate& candidate = by_key_[key_of(contribution)];
  if (candidate.contribution.payload != contribution.payload) {
    // A region may replace its own contribution after it lost its disk; a holder of the old one
    // says nothing about the new.
    if (!candidate.received_bytes.empty() && holder != contribution.region) return false;
    candidate = {};
  }
  candidate.contribution = contribution;
  const auto known = candidate.received_bytes.find(holder);
  const std::uint64_t known_bytes = known == candidate.received_bytes.end() ? 0 : known->second;
  const bool grows = received_bytes > known_bytes;
  const bool planted = plants(planted_, PlantedBug::count_unchecked);
  set_bytes(candidate, holder, planted ? std::max(known_bytes, received_bytes) : received_bytes);
  return grows && is_own_word(candidate);
}

void Candidates::set_bytes(Candidate& candidate, const std::string& holder,
                           std::uint64_t bytes) const {
  candidate.received_bytes[holder] = bytes;
  if (bytes >= summers_.bytes_for(holder, candidate.contribution)) {
    candidate.holders.insert(holder);
  } else {
    candidate.holders.erase(holder);
  }
}

void Candidates::forget_word_of(const std::string& region) {
  for (auto& [key, candidate] : by_key_) {
    candidate.received_bytes.erase(region);
    candidate.holders.erase(region);
  }
}

void Candidates::settle(const CommitRecord& committed) {
  std::erase_if(by_key_, [&committed](const auto& entry) {
    const bool strays =
        entry.first.round == committed.round && entry.second.contribution.state != committed.state;
    return strays || entry.first.round < committed.expired_before ||
           std::ranges::any_of(committed.participants, [&entry](const Participant& listed) {
             return key_of(listed) == entry.first ||
                    share_samples(listed, entry.second.contribution);
           });
  });
}

const Candidates::Candidate* Candidates::find(const ContributionKey& key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : &found->second;
}

bool Candidates::is_own_word(const Candidate& candidate) const {
  return candidate.received_bytes.contains(candidate.contribution.region) ||
         plants(planted_, PlantedBug::believe_hearsay);
}

std::vector<const Contribution*> Candidates::first_to(Round round) const {
  std::vector<const Contribution*> first;
  for (const auto& [key, candidate] : by_key_) {
    const bool is_first = key.round == round && key.part == 0;
    if (is_first && is_own_word(candidate)) first.push_back(&candidate.contribution);
  }
  return first;
}

bool Candidates::sits_out(const std::string& region, Round round) const {
  const Candidate* const found = find({region, round, 0});
  return found != nullptr && is_own_word(*found) && found->contribution.sits_out;
}

bool Candidates::is_obtainable(const Candidate& candidate, std::size_t required,
                               const std::set<std::string>& up) const {
  return is_own_word(candidate) && candidate.holders.size() >= required &&
         std::ranges::any_of(candidate.holders,
                             [&up](const std::string& holder) { return up.contains(holder); });
}

bool Candidates::can_supply(const CommitRecord& draft, const std::set<std::string>& up) const {
  return std::ranges::all_of(draft.participants, [this, &up](const Participant& one) {
    const Candidate* const found = find(key_of(one));
    return found != nullptr && found->contribution.payload == one.payload &&
           supply_of(*found, up).is_there();
  });
}

std::size_t holders_required(const Membership& membership, const std::set<std::string>& up,
                             bool hurried) {
  const std::size_t regions = membership.region_count();
  const std::size_t voters = std::max<std::size_t>(membership.voters(), 1);
  const std::size_t witnesses = membership.members.size() - regions;
  const std::size_t wanted =
      std::min(std::max<std::size_t>(2, (voters - 1) / 2 + 1), std::max<std::size_t>(1, regions));
  if (!hurried) return wanted;
  const std::size_t majority = voters / 2 + 1;
  const std::size_t least = majority > witnesses ? majority - witnesses : 1;
  const auto reachable = std::ranges::count_if(membership.members, [&up](const Member& member) {
    return !member.witness && up.contains(member.region);
  });
  return std::min(wanted, std::max(least, static_cast<std::size_t>(reachable)));
}

}  // namespace causeway::diloco
