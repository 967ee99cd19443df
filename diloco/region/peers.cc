#include "diloco/region/peers.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

namespace causeway::diloco {
namespace {

constexpr Time kNamedAgain = std::chrono::minutes{10};
constexpr int kDoubtsMax = 3;
constexpr int kRecordsToMend = 1'000;

}  // namespace

bool has_payloads(const Status& status, Round round) {
  return status.payloads_from <= round && status.version > round;
}

void Peers::set_up(const std::string& peer, const std::string& incarnation,
                   const std::string& via) {
  peers_[peer].incarnation = incarnation;
  peers_[peer].via = via;
  peers_[peer].heard = false;
  up_.insert(peer);
  via.empty() ? void(linked_.insert(peer)) : void(linked_.erase(peer));
  doubted_.erase(peer);  // it may have been mended
}

bool Peers::set_down(const std::string& peer) {
  if (up_.erase(peer) == 0) return false;
  linked_.erase(peer);
  peers_[peer].incarnation.clear();
  peers_[peer].via.clear();
  return true;
}

Peers::Heard Peers::hear(const std::string& peer, const Status& status) {
  Peer& known = peers_.at(peer);
  const auto place = [](const Status& of) { return std::pair(of.revision, of.version); };
  if (known.heard && place(status) < place(*known.status)) return Heard::stale;
  known.heard = true;
  if (known.status == status) return Heard::same;
  known.status = status;
  return Heard::news;
}

const std::string& Peers::incarnation(const std::string& peer) const {
  static const std::string none;
  const auto found = peers_.find(peer);
  return found == peers_.end() ? none : found->second.incarnation;
}

std::string Peers::via(const std::string& peer) const {
  const auto found = peers_.find(peer);
  return found == peers_.end() ? std::string() : found->second.via;
}

const Status* Peers::status(const std::string& peer) const {
  const auto found = peers_.find(peer);
  return found != peers_.end() && found->second.status ? &*found->second.status : nullptr;
}

bool Peers::any_heard() const {
  return std::ranges::any_of(peers_,
                             [](const auto& peer) { return peer.second.status.has_value(); });
}

bool Peers::anyone_misses_payloads() const {
  return std::ranges::any_of(peers_, [](const auto& peer) {
    return peer.second.status && !peer.second.status->missing.empty();
  });
}

bool Peers::are_ahead_of(std::uint32_t revision, Round version,
                         const std::optional<std::string>& leader) const {
  int ahead = 0;
  for (const auto& [name, peer] : peers_) {
    if (!peer.status || doubts(name)) continue;
    const std::pair place(peer.status->revision, peer.status->version);
    if (place <= std::pair(revision, version)) continue;
    ahead += name == leader || plants(planted_, PlantedBug::believe_heads) ? 2 : 1;
  }
  return ahead >= 2;
}

void Peers::doubt(const std::string& peer, const std::string& what, const Membership& members,
                  Time now) {
  doubted_.insert(peer);
  Doubts& doubts_of = doubts_[peer];
  ++doubts_of.times;
  doubts_of.records_since = 0;
  const auto against = static_cast<std::size_t>(std::ranges::count_if(
      members.members, [this](const Member& member) { return doubts(member.region); }));
  const bool believes = plants(planted_, PlantedBug::believe_heads);
  if (believes || members.members.size() - against < members.majority()) {
    return out_.end(
        4,
        what +
            ": one of the two ledgers was replaced or edited, or most regions were started from "
            "older copies of their directories and decided rounds anew; `causeway verify` finds "
            "where. If the run is to go on as most regions have it, keep a copy of this region's "
            "directory, then empty it and start this region with --join. If it is to go on as it "
            "is here, stop the others now (docs/operate.md, \"Two histories\")");
  }
  const auto [named, first] = named_at_.try_emplace(peer, now);
  if (!first && now < named->second + kNamedAgain) return;
  named->second = now;
  out_.note(
      Note::Severity::error,
      what + ", but no majority says so: " + peer +
          " is not listened to until it connects again. Its ledger was replaced or edited, "
          "or it lies: look at it, and revoke its certificate if you do not trust it. But if "
          "this region and others were started from older copies of their directories, it has "
          "rounds that were lost here (docs/operate.md, \"Two histories\")");
}

bool Peers::doubts_for_good(const std::string& peer) const {
  const auto doubted = doubts_.find(peer);
  return doubted != doubts_.end() && doubted->second.times >= kDoubtsMax;
}

// What it says itself is no proof. Who lies again after so many records has only gained that it is
// waited for at the end as long as others are.
void Peers::note_record() {
  for (auto doubted = doubts_.begin(); doubted != doubts_.end();) {
    auto& [peer, doubts_of] = *doubted;
    if (is_up(peer) && !doubts(peer) && peers_.at(peer).heard) ++doubts_of.records_since;
    doubted = doubts_of.records_since >= kRecordsToMend ? doubts_.erase(doubted) : ++doubted;
  }
}

std::vector<std::string> Peers::that_differ_from(const Applied& applied) const {
  std::vector<std::string> differing;
  for (const auto& [name, peer] : peers_) {
    if (!peer.status || !peer.status->applied) continue;
    if (peer.status->applied->version != applied.version) continue;
    if (peer.status->applied->state != applied.state) differing.push_back(name);
  }
  return differing;
}

bool Peers::any_read_the_same(const DataDigest& data) const {
  return std::ranges::any_of(up_, [&](const std::string& name) {
    const Status* const known = status(name);
    return known != nullptr && known->data && data.whole && known->data->whole == data.whole;
  });
}

std::vector<std::string> Peers::that_read_other(const DataDigest& data) const {
  std::vector<std::string> differing;
  for (const std::string& name : up_) {
    const Status* const known = status(name);
    if (known != nullptr && known->data && !same_data(*known->data, data))
      differing.push_back(name);
  }
  return differing;
}

std::map<Snapshot, Round> Peers::leaps_of(const Membership& members) const {
  constexpr std::size_t kLeapsMax = 2;
  std::map<Snapshot, Round> leaps;
  for (const auto& [name, peer] : peers_) {
    if (!peer.status || peer.status->leaps.empty() || !members.trains(name)) continue;
    const Round applied = peer.status->applied ? peer.status->applied->version : 0;
    for (const Snapshot& leap :
         std::span(peer.status->leaps).first(std::min(kLeapsMax, peer.status->leaps.size()))) {
      const Round from = std::max(applied, leap.version);
      Round& needed = leaps.try_emplace(leap, from).first->second;
      needed = std::min(needed, from);
    }
  }
  return leaps;
}

bool Peers::awaits_snapshot(const std::string& peer) const {
  const Status* said = status(peer);
  return said != nullptr && said->awaits_snapshot;
}

bool Peers::any_has_newest_payloads(Round round) const {
  return std::ranges::any_of(linked_, [&](const std::string& name) {
    const Status* said = status(name);
    return said != nullptr && said->payloads_from <= round;
  });
}

bool Peers::has_payloads(const std::string& peer, Round round) const {
  const Status* known = linked_.contains(peer) ? status(peer) : nullptr;
  return known != nullptr && diloco::has_payloads(*known, round);
}

bool Peers::any_has_payloads(Round round) const {
  return std::ranges::any_of(
      linked_, [this, round](const std::string& name) { return has_payloads(name, round); });
}

bool Peers::any_keeps_payloads(const Membership& members) const {
  return std::ranges::any_of(linked_, [&members](const std::string& name) {
    const Member* member = members.find(name);
    return member != nullptr && !member->witness;
  });
}

std::string Peers::holder_of(const std::string& contributor, Round round) const {
  if (has_payloads(contributor, round)) return contributor;
  const auto holder = std::ranges::find_if(
      linked_, [this, round](const std::string& name) { return has_payloads(name, round); });
  return holder == linked_.end() ? contributor : *holder;
}

void Peers::send(const std::string& peer, Message message) {
  if (is_up(peer)) out_.push(SendMessage{peer, std::move(message)});
}

void Peers::broadcast(const Message& message) {
  for (const std::string& peer : up_) send(peer, message);
}

}  // namespace causeway::diloco
