// Decider: which contributions the leader waits for, in words.
#include <algorithm>
#include <chrono>

#include "diloco/round/decider.h"
#include "inter/base/text.h"

namespace causeway::diloco {
namespace {

std::string in_seconds(Time time) {
  using std::chrono::seconds;
  const auto whole = std::chrono::duration_cast<seconds>(time).count();
  return std::to_string(std::max<std::int64_t>(0, whole)) + " s";
}

}  // namespace

std::string Decider::describe(const std::string& region) const {
  const auto found = candidates_.find({region, round_, 0});
  if (found == candidates_.end()) {
    return region + (up_.contains(region) ? " (no contribution yet)" : " (unreachable)");
  }
  const std::uint64_t size_bytes = found->second.contribution.payload.size_bytes;
  std::uint64_t most = 0;
  std::size_t holding = 0;
  for (const auto& [holder, bytes] : found->second.received_bytes) {
    if (holder == region) continue;
    most = std::max(most, bytes);
    holding += bytes >= size_bytes ? 1 : 0;
  }
  return region + " (" + std::to_string(most) + " of " + std::to_string(size_bytes) +
         " payload bytes at " + std::to_string(holding) + " other regions)";
}

std::string Decider::sitting_out() const {
  std::string names;
  for (const auto& [key, candidate] : candidates_) {
    if (!is_fresh(key) || !candidate.contribution.sits_out) continue;
    inter::append_item(names, key.region);
  }
  return names.empty()
             ? ""
             : " (" + names + " sit this round out, because their contribution is not finite)";
}

std::string Decider::waiting_for(Time now) const {
  std::string text;
  for (const std::string& region : attached_) {
    if (!settled(region)) inter::append_item(text, describe(region));
  }
  const std::size_t count = contributors();
  if (text.empty() && count >= contributions_min()) return {};
  if (text.empty()) text = "any region" + sitting_out();
  text += " for round " + std::to_string(round_);
  const std::optional<Time> until = deadline();
  if (until && now < *until) return text + ", at most " + in_seconds(*until - now) + " more";
  return text + "; it needs " + std::to_string(contributions_min()) + " contributions and has " +
         std::to_string(count);
}

}  // namespace causeway::diloco
