// Cluster: what is on a region's disk.
#include <algorithm>
#include <limits>

#include "tests/diloco/cluster/cluster_parts.h"

namespace causeway::diloco::testing {

void Cluster::lose_spool(const std::string& region) {
  kill_region(region);
  Node& node = nodes_.at(region);
  for (const inter::BlobId& blob : node.disk.blobs) stored_[blob].erase(region);
  node.disk.blobs.clear();
  node.partial.clear();
  node.damaged.clear();
}

void Cluster::keep_copy(const std::string& region) {
  const Node& node = nodes_.at(region);
  copies_[region] = {.disk = node.disk,
                     .checkpoint = node.worker.checkpoint,
                     .checkpoint_has_lineage = node.worker.checkpoint_has_lineage,
                     .partial = node.partial,
                     .damaged = node.damaged};
}

void Cluster::put_back(const std::string& region) {
  Node& node = nodes_.at(region);
  const Copy& copy = copies_.at(region);
  node.worker.checkpoint = copy.checkpoint;
  node.worker.checkpoint_has_lineage = copy.checkpoint_has_lineage;
  kill_region(region);
  lost_logs_.push_back(node.disk.raft);
  node.disk = copy.disk;
  node.partial = copy.partial;
  node.damaged = copy.damaged;
  for (const inter::BlobId& blob : node.disk.blobs) stored_[blob].insert(region);
}

std::uint64_t Cluster::room(const std::string& region) const {
  if (real_) return real_->spool(region).free_bytes();
  if (options_.spool_bytes == 0) return std::numeric_limits<std::uint64_t>::max();
  const Node& node = nodes_.at(region);
  std::uint64_t used = 0;
  for (const inter::BlobId& blob : node.disk.blobs) used += blob.size_bytes;
  for (const auto& [blob, bytes] : node.partial) used += blob.size_bytes;
  return options_.spool_bytes - std::min(used, options_.spool_bytes);
}

std::set<inter::BlobId> Cluster::begun(const std::string& region) const {
  if (real_) return real_->spool(region).begun();
  std::set<inter::BlobId> blobs;
  for (const auto& [blob, bytes] : nodes_.at(region).partial) blobs.insert(blob);
  return blobs;
}

bool Cluster::fits(const std::string& region, const inter::BlobId& blob) const {
  return nodes_.at(region).partial.contains(blob) || blob.size_bytes <= room(region);
}

// Most of the log stays on the disk.
PersistentState Cluster::on_start(Node& node) {
  constexpr Index kInMemory = 2;
  node.ledger.raft = &node.disk.raft;
  PersistentState state = node.disk;
  state.raft.earlier = &node.ledger;
  const Index first = state.raft.committed - std::min(state.raft.committed, kInMemory);
  state.raft.log.erase(state.raft.log.begin(),
                       state.raft.log.begin() + static_cast<std::ptrdiff_t>(first));
  state.raft.first = first + 1;
  return state;
}

std::vector<LogEntry> Cluster::DiskLog::read(Index first, std::size_t count) const {
  if (first + count - 1 > raft->committed) throw Violation("an entry is read that is not on disk");
  const auto begin = raft->log.begin() + static_cast<std::ptrdiff_t>(first - 1);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

Index Cluster::entries_in_memory(const std::string& region) const {
  const RaftLog& log = nodes_.at(region).protocol->raft().log();
  return log.last() + 1 - log.first_in_memory();
}

// A voter that acknowledges before its disk does forgets what it promised when it crashes.
void Cluster::save_raft(Node& node, const SaveRaft& save) {
  if (options_.planted == PlantedBug::forget_votes) return;
  RaftState& disk = node.disk.raft;
  if (save.first_index > disk.log.size() + 1) throw Violation("a log is saved with a gap");
  disk.term = save.term;
  disk.vote = save.vote;
  disk.log.resize(std::max<std::size_t>(save.first_index - 1, disk.committed));
  for (std::size_t i = 0; i < save.entries.size(); ++i) {
    if (save.first_index + i > disk.log.size()) disk.log.push_back(save.entries[i]);
  }
}

void Cluster::append(const std::string& region, const std::vector<LogEntry>& entries) {
  RaftState& disk = nodes_.at(region).disk.raft;
  for (const LogEntry& entry : entries) {
    const Index index = disk.committed + 1;
    if (disk.log.size() < index) disk.log.push_back(entry);
    disk.log[index - 1] = entry;
    const std::size_t known = history_.records().size();
    history_.committed(region, index, entry, evidence(region, index, entry));
    disk.committed = index;
    const auto* record = std::get_if<CommitRecord>(&entry.body);
    if (loses_next_ && record != nullptr && history_.records().size() > known)
      lose_payload_of(*record);
  }
}

// The process died in the middle. The entry that was cut off is dropped when the file is opened
// (ledger_test.cc); the other files are replaced whole.
void Cluster::append_torn(const std::string& region, const AppendLedger& append) {
  std::vector<LogEntry> whole = append.entries;
  whole.resize(random_() % (whole.size() + 1));
  this->append(region, whole);
}

}  // namespace causeway::diloco::testing
