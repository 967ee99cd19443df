#include "diloco/ledger/recovery.h"

#include <algorithm>
#include <string>
#include <system_error>

#include "diloco/files/checked_file.h"
#include "diloco/log/wire.h"

namespace causeway::diloco {
namespace {

// None if it is damaged.
std::optional<Promises> parse_promises(std::string_view bytes, PlantedBug planted) {
  if (bytes.empty()) return Promises{};
  const std::optional<std::string> content =
      plants(planted, PlantedBug::ignore_checksums)
          ? std::string(bytes.substr(std::min<std::size_t>(bytes.size(), with_checksum({}).size())))
          : without_checksum(bytes);
  wire::RaftFile file;
  // Earlier versions let one message raise the term so far that no later one was left.
  const bool sound = content && file.ParseFromString(*content) && file.term() <= kTermMax;
  if (!sound) return std::nullopt;
  Promises promises{.term = file.term(),
                    .vote = file.vote(),
                    .first_index = std::max<Index>(file.first_index(), 1),
                    .entries = {}};
  try {
    for (const auto& entry : file.entries()) promises.entries.push_back(decode(entry));
  } catch (const std::system_error&) {
    return std::nullopt;
  }
  return promises;
}

}  // namespace

std::string raft_bytes(const Promises& promises) {
  wire::RaftFile file;
  file.set_term(promises.term);
  file.set_vote(promises.vote);
  file.set_first_index(promises.first_index);
  for (const LogEntry& entry : promises.entries) encode(entry, file.add_entries());
  return with_checksum(file.SerializeAsString());
}

Recovery recover(const LedgerExtent& records, Index committed, std::string_view raft,
                 PlantedBug planted) {
  Recovery recovery;
  const std::optional<Promises> promises = parse_promises(raft, planted);
  if (!promises) {
    recovery.lost = "ledger/raft is damaged";
  } else if (promises->term == 0 && (committed > 1 || !records.damage.empty())) {
    // Nothing is promised only before a founder's first entry has a second.
    recovery.lost = "ledger/raft is missing";
  } else if (promises->first_index > committed + 1) {
    recovery.lost = "ledger/records lost its entries from " + std::to_string(committed + 1) + " on";
  }
  if (!records.damage.empty() && !recovery.lost.empty()) recovery.lost += ": " + records.damage;
  recovery.promises.first_index = committed + 1;
  if (!promises) return recovery;
  recovery.promises.term = promises->term;
  if (!recovery.lost.empty()) return recovery;
  recovery.promises.vote = promises->vote;
  const std::size_t known = committed + 1 - promises->first_index;
  if (known < promises->entries.size()) {
    recovery.promises.entries.assign(promises->entries.begin() + static_cast<std::ptrdiff_t>(known),
                                     promises->entries.end());
  }
  return recovery;
}

}  // namespace causeway::diloco
