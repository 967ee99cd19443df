#include "diloco/round/data_check.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "inter/base/text.h"

namespace causeway::diloco {

std::vector<std::string> DataCheck::members_that_read_other() const {
  std::vector<std::string> others = region_.peers.that_read_other(*region_.worker.data());
  const Membership& membership = region_.agreement.members();
  std::erase_if(others, [&](const auto& peer) { return membership.find(peer) == nullptr; });
  return others;
}

void DataCheck::check(bool just_attached, Time now) {
  if (!region_.worker.data()) return;
  const bool same = region_.peers.any_read_the_same(*region_.worker.data());
  if (same) region_.worker.prove_data();
  just_attached_ = just_attached_ || just_attached;
  // Before the log says who the members are, nobody knows which regions are most of them.
  const std::set<std::string> members = region_.agreement.members().regions();
  if (!members.contains(region_.options.self)) return;
  const bool attached = std::exchange(just_attached_, false);
  if (attached) in_doubt_until_ = now + region_.options.start_wait;
  if (same) in_doubt_until_.reset();
  const bool in_doubt = !waits_for(now).empty();
  const bool begins = std::exchange(was_in_doubt_, in_doubt) || attached ||
                      region_.history.version() == 0 || region_.worker.data_is_unproven();
  const std::vector<std::string> others = members_that_read_other();
  if (others.empty()) return;
  const std::set<std::string> names(others.begin(), others.end());
  const bool news = std::exchange(told_of_data_, names) != names;
  std::string text = "this region reads other data (" + short_name(*region_.worker.data()) + ")";
  for (const std::string& peer : others) {
    text += (peer == others.front() ? " than " : ", ") + peer + " (" +
            short_name(*region_.peers.status(peer)->data) + ")";
  }
  text +=
      ": give all regions the same files in data.files and data.validation_files, or set "
      "data.mode = \"per-region\" in all of them";
  const std::size_t most = begins ? (members.size() + 1) / 2 : members.size() / 2 + 1;
  if (others.size() >= most) return region_.out.end(2, text);
  if (news) region_.out.note(Note::Severity::warning, text);
}

std::vector<std::string> DataCheck::waits_for(Time now) const {
  std::vector<std::string> unknown;
  const bool may_be = in_doubt_until_ && now < *in_doubt_until_;
  if (!may_be || members_that_read_other().empty()) return unknown;
  for (const Member& member : region_.agreement.members().members) {
    if (member.region == region_.options.self || member.witness) continue;
    const Status* const status = region_.peers.status(member.region);
    // A program of its own has a worker, and no digest.
    const bool told = status != nullptr && (status->data || status->applied);
    if (!told || !region_.peers.is_up(member.region)) unknown.push_back(member.region);
  }
  return unknown;
}

std::string DataCheck::waiting_for(Time now) const {
  const std::vector<std::string> regions = waits_for(now);
  if (regions.empty()) return {};
  std::string names;
  for (const std::string& region : regions) inter::append_item(names, region);
  const auto most =
      std::chrono::duration_cast<std::chrono::seconds>(region_.options.start_wait).count();
  return fmt::format(
      "{} to say which data it reads, as this region reads other data than {} (for at most {} s, "
      "which sync.start_wait_s sets)",
      names, members_that_read_other().front(), most);
}

}  // namespace causeway::diloco
