#include "apps/run/verify/verify.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "apps/run/verify/kept_payloads.h"
#include "apps/run/verify/region_ledger.h"
#include "apps/run/verify/signed_states.h"
#include "apps/run/verify/snapshot_leaves.h"
#include "diloco/files/error.h"
#include "intra/base/error.h"
#include "intra/outer/state_file.h"
#include "intra/published/checkpoint.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;

struct Region {
  RegionLedger ledger;
  Records records;  // of that: both stay where they are
  States agreed;
  std::optional<SignedStates> own;  // none: signatures are not checked
  std::optional<SnapshotLeaves> snapshot;

  const std::string& name() const { return ledger.name; }
};

std::string short_hex(const diloco::Digest& digest) {
  return diloco::to_hex(digest).substr(0, 16);
}

std::string count(std::size_t number, const std::string& what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

std::string entries_of(std::size_t number) {
  return std::to_string(number) + (number == 1 ? " entry" : " entries");
}

class Verifier {
 public:
  Verifier(const std::vector<RegionLedger>& ledgers, const fs::path& certificates)
      : certificates_(certificates) {
    for (const RegionLedger& ledger : ledgers)
      regions_.push_back({.ledger = ledger,
                          .records = read_records(ledger),
                          .agreed = {},
                          .own = {},
                          .snapshot = {}});
    for (Region& region : regions_) region.agreed = agreed_states(region.records);
  }

  Verification run() {
    if (certificates_.empty()) say("signatures are not checked; --certificates DIR checks them");
    for (Region& region : regions_) {
      if (!certificates_.empty()) check_signatures(region);
      check_states(region);
    }
    choose_longest();
    compare_ledgers();
    compare_last_states();
    compare_snapshots();
    check_payloads();
    check_models();
    return std::move(result_);
  }

 private:
  void say(const std::string& line) { result_.lines.push_back(line); }
  void differ(const std::string& line) {
    result_.same = false;
    say(line);
  }
  void cover(const std::string& what, const std::string& how) {
    result_.covered.push_back(what + ": " + how);
  }

  void check_signatures(Region& region) {
    region.own = signed_states(region.ledger, region.records, certificates_);
    if (!region.own->problem.empty()) {
      differ(region.name() + ": " + region.own->problem);
      region.own.reset();  // it may say anything
      return;
    }
    say(region.name() + ": " + entries_of(region.ledger.entries.size()) +
        ", all signed by its certificate");
  }

  void check_states(const Region& region) {
    if (!region.own) {
      return cover("states of " + region.name(), "not compared, as no signature says which it had");
    }
    for (const auto& [version, state] : region.own->wrong) {
      return differ(region.name() + ": its state of version " + std::to_string(version) + " (" +
                    short_hex(state) + ") is not the agreed one (" +
                    short_hex(region.agreed.at(version)) + "): " +
                    (version == 0 ? "it began with other weights"
                                  : "round " + std::to_string(version - 1) +
                                        " was not applied as the others did"));
    }
    for (const auto& [version, state] : region.own->healed) {
      say(region.name() + ": its state of version " + std::to_string(version) +
          " was wrong, and was healed");
    }
    const std::size_t right = region.own->right.size(), all = region.agreed.size();
    std::string line =
        "it signed the agreed one of " + std::to_string(right) + " of " + count(all, "version");
    if (right < all) line += "; of the others it contributed none, so there is none to compare";
    cover("states of " + region.name(), line);
  }

  // Of those that are signed, if any is: what the others are held against.
  void choose_longest() {
    longest_ = &*std::ranges::max_element(regions_, {}, [](const Region& region) {
      return std::pair(region.own.has_value(), region.ledger.entries.size());
    });
    all_signed_ =
        std::ranges::all_of(regions_, [](const Region& region) { return region.own.has_value(); });
  }

  void compare_ledgers() {
    const auto& longest = longest_->ledger.entries;
    std::size_t common = longest.size();
    for (const Region& region : regions_) {
      const auto& entries = region.ledger.entries;
      common = std::min(common, entries.size());
      for (std::size_t i = 0; i < std::min(entries.size(), longest.size()); ++i) {
        if (entries[i].hash == longest[i].hash) continue;
        return differ("the ledgers differ from " + describe(longest[i], i) + " in " +
                      longest_->name() + " and " + describe(entries[i], i) + " in " +
                      region.name() + " on");
      }
      if (region.ledger.torn_bytes > 0)
        say(region.name() + ": the last " + std::to_string(region.ledger.torn_bytes) +
            " bytes of its ledger are no whole entry: it was being written, or is damaged");
      if (entries.size() < longest.size())
        say(region.name() + ": its ledger ends " + entries_of(longest.size() - entries.size()) +
            " before that of " + longest_->name());
    }
    const std::size_t rounds = longest_->records.standing.size();
    for (const Records::Withdrawal& one : longest_->records.withdrawals)
      say("round " + std::to_string(one.round) + " was decided again by " +
          describe(longest[one.entry], one.entry) + ", without what no region had any more");
    cover("entries", std::to_string(longest.size()) + ", " + std::to_string(rounds) +
                         " of them rounds; the first " + std::to_string(common) +
                         " are the same in " + count(regions_.size(), "ledger") +
                         (all_signed_ ? ", signed in each" : "; not all are known to be signed"));
  }

  // No record follows the last round, so none says which state is the agreed one after it.
  void compare_last_states() {
    const diloco::Round last = longest_->agreed.size();
    std::map<std::string, diloco::Digest> signers;
    for (const Region& region : regions_) {
      if (region.own && region.own->finished && region.own->finished->version == last)
        signers[region.name()] = region.own->finished->state;
    }
    const std::string which = "the state of version " + std::to_string(last) + ", the last";
    for (const auto& [name, state] : signers) {
      const auto& [first, finished] = *signers.begin();
      if (state == finished) continue;
      return differ("another state of version " + std::to_string(last) + ", the last, in " + first +
                    " (" + short_hex(finished) + ") than in " + name + " (" + short_hex(state) +
                    "): they applied round " + std::to_string(last - 1) + " differently");
    }
    if (signers.empty())
      return cover(which, "not compared: no region signed one (it does when the run is over)");
    last_state_ = signers.begin()->second;
    std::string names;
    for (const auto& [name, state] : signers) names += (names.empty() ? "" : ", ") + name;
    cover(which, "the same by the signatures of " + names);
  }

  const diloco::Digest* known_state(diloco::Round version) const {
    const auto agreed = longest_->agreed.find(version);
    if (agreed != longest_->agreed.end()) return &agreed->second;
    return version == longest_->agreed.size() && last_state_ ? &*last_state_ : nullptr;
  }

  void compare_snapshots() {
    std::map<diloco::Round, const Region*> firsts;
    for (Region& region : regions_) {
      if (!read_snapshot(region)) continue;
      const diloco::Round version = region.snapshot->version;
      const std::string which = "version " + std::to_string(version);
      check_snapshot(region, which);
      const auto [first, fresh] = firsts.emplace(version, &region);
      if (fresh) continue;
      const auto where = first_difference(*first->second->snapshot, *region.snapshot);
      if (where)
        differ("the snapshots of " + which + " in " + first->second->name() + " and " +
               region.name() + " differ first in " + *where);
    }
  }

  bool read_snapshot(Region& region) {
    try {
      region.snapshot = read_snapshot_leaves(region.ledger.directory);
    } catch (const std::system_error& error) {
      if (error.code() != intra::Errc::bad_checkpoint) throw;
      differ(region.name() + ": " + intra::message_of(error));
      return false;
    }
    if (!region.snapshot) cover("snapshot of " + region.name(), "there is none");
    return region.snapshot.has_value();
  }

  void check_snapshot(const Region& region, const std::string& which) {
    const diloco::Digest* state = known_state(region.snapshot->version);
    const std::string name = "snapshot of " + region.name();
    if (was_taken_back(region, region.snapshot->version))
      return cover(name, "of " + which + ", which was taken back after its ledger ends");
    if (state == nullptr)
      return cover(name, "of " + which + ", not compared: no signature says which state that is");
    if (*state != region.snapshot->state)
      return differ(region.name() + ": its snapshot of " + which + " is not the agreed state");
    cover(name, "of " + which + ", which has the agreed state");
  }

  // By a record that the region has not heard of.
  bool was_taken_back(const Region& region, diloco::Round version) const {
    return std::ranges::any_of(longest_->records.withdrawals, [&](const auto& one) {
      return one.entry >= region.ledger.entries.size() && version > one.round;
    });
  }

  void check_payloads() {
    std::vector<fs::path> directories;
    for (const Region& region : regions_) directories.push_back(region.ledger.directory);
    const KeptPayloads kept(directories);
    std::size_t listed = 0, here = 0;
    for (const diloco::CommitRecord* record : longest_->records.standing) {
      for (const diloco::Participant& participant : record->participants) {
        ++listed;
        try {
          if (kept.open(participant.payload)) ++here;
        } catch (const std::system_error& error) {
          if (error.code() != make_error_code(diloco::Errc::lineage)) throw;
          differ("the payload of " + participant.region + " in round " +
                 std::to_string(record->round) + ": " + intra::message_of(error));
        }
      }
    }
    std::string line = std::to_string(here) + " of " + std::to_string(listed) +
                       " are here and are what the records list";
    if (here < listed)
      line += "; the others were not kept (ledger.keep = \"all\" keeps them)";
    else if (listed > 0)
      line += "; `causeway replay` computes the states again from them";
    cover("payloads", line);
  }

  void check_models() {
    for (const Region& region : regions_) {
      const fs::path file = intra::checkpoint_directory(region.ledger.directory) / "final";
      const std::string name = "model of " + region.name();
      if (!fs::exists(file)) {
        cover(name, "there is none (the built-in trainer writes it when the run is over)");
        continue;
      }
      try {
        check_model(region, name, intra::load_model(file));
      } catch (const std::system_error& error) {
        if (error.code() != intra::Errc::bad_checkpoint) throw;
        differ(region.name() + ": " + intra::message_of(error));
      }
    }
  }

  // Its tensors are the anchor of the snapshot that was taken with it.
  void check_model(const Region& region, const std::string& name, const intra::LoadedModel& model) {
    const auto round = model.metadata.find("round");
    const bool same_version = region.snapshot && round != model.metadata.end() &&
                              round->second == std::to_string(region.snapshot->version);
    if (!same_version || known_state(region.snapshot->version) == nullptr)
      return cover(name, "not compared: there is no snapshot of its version to compare it with");
    if (diloco::merkle_leaves(model.params) != region.snapshot->spans.at("anchor"))
      return differ(region.name() + ": its model is not the state of version " + round->second);
    cover(name, "the weights of version " + round->second);
  }

  const fs::path certificates_;
  std::vector<Region> regions_;
  const Region* longest_ = nullptr;
  bool all_signed_ = false;
  std::optional<diloco::Digest> last_state_;
  Verification result_;
};

}  // namespace

Verification verify(const std::vector<fs::path>& paths, const fs::path& certificates) {
  const std::vector<RegionLedger> ledgers = read_region_ledgers(paths);
  const fs::path beside = certificates_beside(ledgers.front().directory);
  return Verifier(ledgers, certificates.empty() ? beside : certificates).run();
}

}  // namespace causeway::run
