#include "diloco/round/data_check.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "inter/base/text.h"

namespace causeway::diloco {

void DataCheck::check(bool just_attached, Time now) {
  const std::optional<DataDigest>& own = region_.worker.data();
  if (!own) {
    may_be_in_doubt_ = false;
    return;
  }
  if (region_.peers.any_read_the_same(*own)) region_.worker.prove_data();
  just_attached_ = just_attached_ || just_attached;
  // Before the log says who the members are, nobody knows which regions are most of them.
  const Membership& members = region_.agreement.members();
  if (!members.trains(region_.options.self)) return;
  const bool attached = std::exchange(just_attached_, false);
  if (attached && !(began_with_ && same_data(*began_with_, *own))) {
    began_with_ = own;
    may_be_in_doubt_ = true;
    in_doubt_until_.reset();
  }
  if (most_read_the_same()) may_be_in_doubt_ = false;
  notice_changes(now);
  std::vector<std::string> others = region_.peers.that_read_other(*own);
  std::erase_if(others, [&](const std::string& peer) { return !members.trains(peer); });
  const auto judged = std::ranges::count_if(
      others, [&](const std::string& peer) { return !may_be_changing(peer, now); });
  const bool all_judged = judged == std::ssize(others);
  const bool begins = was_in_doubt_ || attached || region_.history.version() == 0 ||
                      region_.worker.data_is_unproven();
  was_in_doubt_ = !waits_for(now).empty() || (begins && !all_judged);
  if (others.empty()) return;
  const std::set<std::string> names(others.begin(), others.end());
  const bool news = std::exchange(told_of_data_, names) != names;
  const std::size_t count = members.region_count();
  const std::size_t most = begins ? (count + 1) / 2 : count / 2 + 1;
  if (static_cast<std::size_t>(judged) >= most) return region_.out.end(2, difference(others));
  if (news) region_.out.note(Note::Severity::warning, difference(others));
}

void DataCheck::notice_changes(Time now) {
  const DataDigest& own = *region_.worker.data();
  bool differs = false, changed = false;
  for (const std::string& region : region_.agreement.members().regions()) {
    const Status* const status = region_.peers.status(region);
    if (status == nullptr || !status->data) continue;
    if (own.whole && status->data->whole == own.whole) read_the_same_.insert(region);
    if (same_data(*status->data, own)) continue;
    differs = true;
    changed = changed || read_the_same_.contains(region);
  }
  if (!differs) {
    in_doubt_until_.reset();
  } else if (!in_doubt_until_ && (may_be_in_doubt_ || changed)) {
    in_doubt_until_ = now + region_.options.start_wait;
  }
}

bool DataCheck::may_be_changing(const std::string& region, Time now) const {
  return in_doubt_until_ && now < *in_doubt_until_ && read_the_same_.contains(region);
}

std::string DataCheck::difference(const std::vector<std::string>& others) const {
  std::string text = "this region reads other data (" + short_name(*region_.worker.data()) + ")";
  for (const std::string& peer : others) {
    text += (peer == others.front() ? " than " : ", ") + peer + " (" +
            short_name(*region_.peers.status(peer)->data) + ")";
  }
  return text +
         ": give all regions the same files in data.files and data.validation_files, or set "
         "data.mode = \"per-region\" in all of them";
}

// More than half of the members, with this one.
bool DataCheck::most_read_the_same() const {
  const std::set<std::string> members = region_.agreement.members().regions();
  std::size_t same = 1;
  for (const std::string& region : members) {
    const Status* const status = region_.peers.status(region);
    const bool heard = status != nullptr && status->data && region_.peers.is_up(region);
    if (heard && same_data(*status->data, *region_.worker.data())) ++same;
  }
  return 2 * same > members.size();
}

std::optional<std::string> DataCheck::any_that_read_other() const {
  for (const std::string& region : region_.agreement.members().regions()) {
    const Status* const status = region_.peers.status(region);
    if (status != nullptr && status->data && !same_data(*status->data, *region_.worker.data()))
      return region;
  }
  return std::nullopt;
}

std::vector<std::string> DataCheck::waits_for(Time now) const {
  std::vector<std::string> unknown;
  const bool may_be = may_be_in_doubt_ && in_doubt_until_ && now < *in_doubt_until_;
  if (!may_be || !any_that_read_other()) return unknown;
  for (const Member& member : region_.agreement.members().members) {
    if (member.region == region_.options.self || member.witness) continue;
    const Status* const status = region_.peers.status(member.region);
    // A program of its own has a worker, and no digest.
    const bool told = status != nullptr && (status->data || status->applied);
    const bool old = told && status->data && !same_data(*status->data, *region_.worker.data()) &&
                     may_be_changing(member.region, now);
    if (!told || old || !region_.peers.is_up(member.region)) unknown.push_back(member.region);
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
      "{} to say which data it reads now, as this region reads other data than {} (for at most {} "
      "s, which sync.start_wait_s sets)",
      names, *any_that_read_other(), most);
}

}  // namespace causeway::diloco
