// Cluster: a disk that gives other bytes back than it took. The bytes are those of the real files,
// and what is left of them is read as the program reads it.
#include <algorithm>

#include "diloco/ledger/ledger_file.h"
#include "diloco/maths/digest.h"
#include "tests/diloco/cluster/cluster_parts.h"

namespace causeway::diloco::testing {
namespace {

std::string records_of(const RaftState& disk) {
  std::string bytes;
  Digest head = chain_start(kRunId);
  for (Index i = 0; i < disk.committed; ++i) {
    const std::string content = content_of(disk.log[i]);
    head = chain_next(head, content);
    bytes += ledger_bytes(content, head, {}, {});
  }
  return bytes;
}

// As it was when the newest entry that is committed now was still a promise, or later.
std::string promises_of(const RaftState& disk, std::mt19937_64& random) {
  const Index first = disk.committed + (disk.committed > 1 ? random() % 2 : 1);
  const auto begin = disk.log.begin() + static_cast<std::ptrdiff_t>(first - 1);
  return raft_bytes({disk.term, disk.vote, first, {begin, disk.log.end()}});
}

void spoil(std::string& bytes, std::mt19937_64& random) {
  constexpr std::size_t kSector = 512;
  if (bytes.empty()) return;
  const std::size_t at = random() % bytes.size();
  switch (random() % 4) {
    case 0:
    case 1:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
      break;
    case 2:  // an append or a truncation that was never synced
      bytes.resize(at);
      break;
    default:  // a sector that was never written
      std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                  std::min(kSector, bytes.size() - at), '\0');
  }
}

}  // namespace

void Cluster::damage(const std::string& region) {
  kill_coordinator(region);
  Node& node = nodes_.at(region);
  RaftState& disk = node.disk.raft;
  if (node.outcome || disk.committed == 0) return;
  std::string records = records_of(disk), raft = promises_of(disk, random_);
  spoil(random_() % 2 == 0 ? records : raft, random_);
  std::vector<LogEntry> log;
  const LedgerExtent extent =
      scan_entries(records, kRunId,
                   [&log](const LedgerEntry& entry, std::size_t) { log.push_back(entry.entry); });
  const auto [promises, lost] = recover(extent, log.size(), raft, options_.planted);
  if (!lost.empty()) {
    lost_logs_.push_back(disk);
    if (!plants(options_.planted, PlantedBug::vote_after_damage)) {
      node.incarnation = std::to_string(++incarnations_);
    }
  }
  disk.committed = log.size();
  disk.log = std::move(log);
  disk.log.insert(disk.log.end(), promises.entries.begin(), promises.entries.end());
  disk.term = promises.term;
  for (const LogEntry& entry : disk.log) disk.term = std::max(disk.term, entry.term);
  disk.vote = promises.vote;
}

// ---- What is in a spool ----

void Cluster::damage_payload(const std::string& region) {
  Node& node = nodes_.at(region);
  if (node.disk.blobs.empty()) return;
  const auto place = static_cast<std::ptrdiff_t>(random_() % node.disk.blobs.size());
  node.damaged.insert(*std::next(node.disk.blobs.begin(), place));
}

void Cluster::lose_payload_of(const CommitRecord& record) {
  if (record.participants.empty()) return;
  loses_next_ = false;
  const inter::BlobId& payload =
      record.participants[random_() % record.participants.size()].payload;
  for (auto& [region, node] : nodes_) {
    if (node.disk.blobs.contains(payload)) node.damaged.insert(payload);
    if (node.partial.contains(payload)) node.spoilt.insert(payload);
  }
}

// As a coordinator does before its worker gets them.
bool Cluster::hands_over(const std::string& region, const std::vector<inter::BlobId>& blobs) {
  Node& node = nodes_.at(region);
  const auto damaged = [&node](const inter::BlobId& blob) { return node.damaged.contains(blob); };
  if (std::ranges::none_of(blobs, damaged)) return true;
  if (plants(options_.planted, PlantedBug::hand_over_unchecked))
    throw Violation(region + " gives its worker a damaged payload");
  later_in_session(region, Time{1000}, [this, region, blobs] {
    for (const inter::BlobId& blob : blobs) find_damage(region, blob);
    say_ready(region);
  });
  return false;
}

void Cluster::find_damage(const std::string& region, const inter::BlobId& blob) {
  Node& node = nodes_.at(region);
  if (now_ < node.paused_until)  // it looks at nothing
    return at(node.paused_until, [this, region, blob] { find_damage(region, blob); });
  if (!alive(region) || !node.damaged.contains(blob)) return;
  lose(region, blob);
  deliver(region, BlobLost{blob});
}

// It had checked it once: what was decided on its word stands.
void Cluster::lose(const std::string& region, const inter::BlobId& blob) {
  remove(region, blob);
  stored_[blob].insert(region);
}

// The peer asks for it again, and whoever sent it looks at its copy.
void Cluster::refuse_spoilt(const std::string& from, const std::string& to,
                            const inter::BlobId& blob) {
  Node& receiver = nodes_.at(to);
  receiver.spoilt.erase(blob);
  receiver.partial.erase(blob);
  at(now_ + random_time(Time{5'000}, Time{300'000}),
     [this, from, blob] { find_damage(from, blob); });
}

}  // namespace causeway::diloco::testing
