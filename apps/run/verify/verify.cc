#include "apps/run/verify/verify.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "apps/run/verify/kept_files.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;

std::string short_hex(const diloco::Digest& digest) {
  return diloco::to_hex(digest).substr(0, 16);
}

std::string entries_of(std::size_t number) {
  return fmt::format("{}{}", number, number == 1 ? " entry" : " entries");
}

class Verifier {
 public:
  Verifier(std::vector<RegionLedger> ledgers, const fs::path& certificates)
      : certificates_(certificates) {
    history_.regions.reserve(ledgers.size());  // records point into what stays where it is
    for (RegionLedger& ledger : ledgers) {
      AuditedRegion& region = history_.regions.emplace_back();
      region.ledger = std::move(ledger);
      region.records = read_records(region.ledger);
      region.agreed = agreed_states(region.records);
    }
  }

  Verification run(const std::vector<fs::path>& runs) {
    for (AuditedRegion& region : history_.regions) {
      if (!certificates_.empty()) check_signatures(region);
    }
    choose_longest();
    for (const AuditedRegion& region : history_.regions) check_states(region);
    compare_ledgers();
    compare_last_states();
    check_members();
    check_kept_files(history_, runs, findings_);
    return findings_.take();
  }

  // `given`: by whoever asks, and not found beside the run.
  void tell_of_certificates(bool given) {
    if (certificates_.empty())
      return findings_.lack("signatures are not checked; --certificates DIR checks them");
    std::string what = certificates_.string();
    if (!given) what += ", which came with the run: --certificates DIR takes those that you trust";
    if (!fs::exists(certificates_ / "ca.crt"))
      what += "; no ca.crt is there, so who issued them is not checked";
    findings_.cover("certificates", what);
  }

 private:
  void check_signatures(AuditedRegion& region) {
    region.own = signed_states(region.ledger, region.records, certificates_);
    if (!region.own->problem.empty()) {
      findings_.differ(region.name() + ": " + region.own->problem);
      region.own.reset();  // it may say anything
      return;
    }
    findings_.say(region.name() + ": " + entries_of(region.ledger.entries.size()) +
                  ", all signed by its certificate");
    if (!region.own->finish_problem.empty())
      findings_.differ(region.name() + ": " + region.own->finish_problem);
  }

  void check_states(const AuditedRegion& region) {
    const std::string name = "states of " + region.name();
    if (!region.own)
      return findings_.cover(name, "not compared, as no signature says which states it had");
    for (const auto& [version, state] : region.own->wrong) {
      return findings_.differ(fmt::format(
          "{}: its state of version {} ({}) is not the agreed one ({}): {}", region.name(), version,
          short_hex(state), short_hex(region.agreed.at(version)),
          version == 0 ? "it began with other weights"
                       : fmt::format("round {} was not applied as the others did", version - 1)));
    }
    for (const auto& [version, state] : region.own->healed) {
      findings_.say(fmt::format("{}: its state of version {} was wrong, and was healed",
                                region.name(), version));
    }
    const std::size_t right = region.own->right.size(), all = region.agreed.size();
    std::string line =
        fmt::format("it signed the agreed state of {} of {}", right, count(all, "version"));
    const auto was_wrong = static_cast<std::size_t>(std::ranges::count_if(
        region.own->healed,
        [&region](const auto& state) { return !region.own->right.contains(state.first); }));
    if (const std::size_t rest = all - right - was_wrong; rest > 0)
      line += "; it contributed nothing from " + count(rest, "version") + ", so it signed none";
    findings_.cover(name, line);
    if (const std::size_t listed = contributed_since_its_disk_votes(region);
        listed > 0 && right == 0 && region.own->healed.empty())
      findings_.lack(region.name() + " signed none of the " + count(listed, "state") +
                     " that records say it contributed from");
  }

  // Versions from which its contributions were listed. A disk that was lost took along what it had
  // signed.
  std::size_t contributed_since_its_disk_votes(const AuditedRegion& region) const {
    std::string incarnation;
    diloco::Round begin = 0, version = 0;
    std::set<diloco::Round> listed;
    for (const diloco::LedgerEntry& entry : history_.longest->ledger.entries) {
      if (const auto* members = std::get_if<diloco::Membership>(&entry.entry.body)) {
        const diloco::Member* member = members->find(region.name());
        const std::string now = member == nullptr ? "" : member->incarnation;
        if (now != incarnation) begin = version;
        incarnation = now;
      }
      const diloco::CommitRecord* record = record_in(entry);
      if (record == nullptr) continue;
      ++version;
      for (const diloco::Participant& one : record->participants)
        if (one.region == region.name()) listed.insert(one.round);
    }
    return static_cast<std::size_t>(std::distance(listed.lower_bound(begin), listed.end()));
  }

  // Of those that are signed, if any is: what the others are held against.
  void choose_longest() {
    history_.longest =
        &*std::ranges::max_element(history_.regions, {}, [](const AuditedRegion& region) {
          return std::pair(region.own.has_value(), region.ledger.entries.size());
        });
    all_signed_ = std::ranges::all_of(
        history_.regions, [](const AuditedRegion& region) { return region.own.has_value(); });
  }

  void compare_ledgers() {
    const AuditedRegion& first = *history_.longest;
    const auto& longest = first.ledger.entries;
    std::size_t common = longest.size();
    for (const AuditedRegion& region : history_.regions) {
      const auto& entries = region.ledger.entries;
      common = std::min(common, entries.size());
      for (std::size_t i = 0; i < std::min(entries.size(), longest.size()); ++i) {
        if (entries[i].hash == longest[i].hash) continue;
        return findings_.differ("the ledgers differ from " + describe(longest[i], i) + " in " +
                                first.name() + " and " + describe(entries[i], i) + " in " +
                                region.name() + " on");
      }
      if (region.ledger.torn_bytes > 0)
        findings_.lack(
            fmt::format("{}: the last {} bytes of its ledger are no whole entry: it was being "
                        "written, or is damaged",
                        region.name(), region.ledger.torn_bytes));
      if (entries.size() < longest.size())
        findings_.say(region.name() + ": its ledger ends " +
                      entries_of(longest.size() - entries.size()) + " before that of " +
                      first.name());
    }
    const std::size_t rounds = first.records.standing.size();
    for (const Records::Withdrawal& one : first.records.withdrawals)
      findings_.say(fmt::format(
          "round {} was decided again by {}, without the payloads that no region had any more",
          one.round, describe(longest[one.entry], one.entry)));
    findings_.cover(
        "entries",
        fmt::format("{}, {} of them rounds; the first {} are the same in {}{}", longest.size(),
                    rounds, common, count(history_.regions.size(), "ledger"),
                    all_signed_ ? ", signed in each" : "; not all are known to be signed"));
  }

  // No record follows the last round, so none says which state is the agreed one after it.
  void compare_last_states() {
    const diloco::Round last = history_.rounds();
    std::map<std::string, diloco::Digest> signers;
    for (const AuditedRegion& region : history_.regions) {
      if (region.own && region.own->finished && region.own->finished->version == last)
        signers[region.name()] = region.own->finished->state;
    }
    const std::string which = fmt::format("the state of version {}, the last", last);
    for (const auto& [name, state] : signers) {
      const auto& [first, finished] = *signers.begin();
      if (state == finished) continue;
      return findings_.differ(
          fmt::format("another state of version {}, the last, in {} ({}) than in {} ({}): they "
                      "applied round {} differently",
                      last, first, short_hex(finished), name, short_hex(state), last - 1));
    }
    if (signers.empty())
      return findings_.cover(which,
                             "not compared: no region signed one (it does when the run is over)");
    history_.last_state = signers.begin()->second;
    std::string names;
    for (const auto& [name, state] : signers) names += (names.empty() ? "" : ", ") + name;
    findings_.cover(which, "the same, as signed by " + names);
    for (const AuditedRegion& region : history_.regions) {
      if (!signers.contains(region.name()) && takes_part(region.name()))
        findings_.lack(fmt::format("{} signed no state of version {}, the last, as {} did",
                                   region.name(), last, signers.begin()->first));
    }
  }

  const diloco::Membership* members() const {
    const auto& entries = history_.longest->ledger.entries;
    for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry)
      if (const auto* found = std::get_if<diloco::Membership>(&entry->entry.body)) return found;
    return nullptr;
  }

  // It trains, and was not removed.
  bool takes_part(const std::string& region) const {
    if (members() == nullptr) return true;
    const diloco::Member* member = members()->find(region);
    return member != nullptr && !member->witness;
  }

  void check_members() {
    std::set<std::string> here;
    for (const AuditedRegion& region : history_.regions) {
      if (!here.insert(region.name()).second)
        findings_.differ(region.ledger.directory.string() + " is of region " + region.name() +
                         ", and so is another directory: name only the right one");
    }
    if (members() == nullptr) return;
    for (const diloco::Member& member : members()->members) {
      if (here.contains(member.region)) continue;
      if (member.incarnation.empty())
        findings_.cover("directory of " + member.region, "not given; it has no vote yet");
      else
        findings_.lack("the directory of " + member.region + ", a member: nothing of it was read");
    }
  }

  const fs::path certificates_;
  History history_;
  Findings findings_;
  bool all_signed_ = false;
};

}  // namespace

Verification verify(const std::vector<fs::path>& paths, const fs::path& certificates) {
  std::vector<RegionLedger> ledgers = read_region_ledgers(paths);
  const fs::path beside = certificates_beside(ledgers.front().directory);
  std::vector<fs::path> runs;
  std::ranges::copy_if(paths, std::back_inserter(runs),
                       [](const fs::path& path) { return fs::is_directory(path / "regions"); });
  Verifier verifier(std::move(ledgers), certificates.empty() ? beside : certificates);
  verifier.tell_of_certificates(!certificates.empty());
  return verifier.run(runs);
}

}  // namespace causeway::run
