#include "diloco/ledger/ledger_file.h"

#include <algorithm>
#include <optional>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "diloco/files/checked_file.h"
#include "diloco/files/error.h"
#include "diloco/files/file_io.h"
#include "diloco/ledger/ledger_bytes.h"
#include "diloco/log/wire.h"
#include "diloco/maths/digest.h"
#include "inter/base/wire.h"

namespace causeway::diloco {
namespace {

using Length = std::uint32_t;  // of an entry, before it
constexpr std::size_t kLengthBytes = sizeof(Length);

std::size_t read_length(std::string_view content, std::size_t offset) {
  return inter::from_little_endian<Length>(content.substr(offset));
}

// The entry in `bytes` if it is what follows `previous`.
bool follows(const std::string& bytes, const Digest& previous, wire::LedgerEntry& entry) {
  if (!entry.ParseFromString(bytes)) return false;
  if (!entry.own_state().empty() && entry.own_state().size() != sizeof(Digest)) return false;
  std::string expected;
  encode(chain_next(previous, entry.entry()), &expected);
  return entry.hash() == expected;
}

LedgerEntry unpack(const wire::LedgerEntry& message) {
  wire::LogEntry entry;
  if (!entry.ParseFromString(message.entry())) throw_malformed("an entry cannot be parsed");
  LedgerEntry unpacked{.entry = decode(entry),
                       .hash = decode_digest(message.hash()),
                       .signature = message.signature(),
                       .own = {},
                       .own_signature = message.own_signature()};
  if (!message.own_state().empty()) {
    unpacked.own = {message.own_version(), decode_digest(message.own_state())};
  }
  return unpacked;
}

void append_digest(std::string& bytes, const Digest& digest) {
  bytes.append(reinterpret_cast<const char*>(digest.data()), digest.size());
}

}  // namespace

std::string signed_content(const Digest& hash) {
  std::string content;
  append_digest(content, hash);
  return content;
}

std::string signed_content(const Digest& hash, const Applied& own) {
  std::string content = signed_content(hash);
  content += inter::little_endian_text(own.version);
  append_digest(content, own.state);
  return content;
}

bool is_signed(const LedgerEntry& entry, const IsSigned& check) {
  if (!check(signed_content(entry.hash), entry.signature)) return false;
  if (!entry.own) return entry.own_signature.empty();
  return check(signed_content(entry.hash, *entry.own), entry.own_signature);
}

void throw_damaged(const std::filesystem::path& path, const std::string& what) {
  throw std::system_error(
      make_error_code(Errc::lineage),
      path.string() + " is damaged (" + what +
          "): restore the region's directory from a backup, or move it away and start with --join. "
          "If the run has other regions, delete ledger/incarnation in the restored directory "
          "before its first start: the backup does not know the votes that the region has given "
          "since");
}

namespace {

// `at(offset, length)`: of the `size` bytes.
template <typename At>
LedgerExtent scan(std::size_t size, const At& at, const std::string& run_id,
                  const VisitEntry& visit) {
  LedgerExtent extent;
  Digest head = chain_start(run_id);
  while (size - extent.whole_bytes >= kLengthBytes) {
    const std::size_t begin = extent.whole_bytes + kLengthBytes;
    const std::string_view prefix = at(extent.whole_bytes, kLengthBytes);
    if (prefix.size() < kLengthBytes) break;  // somebody cut the file meanwhile
    const std::size_t length = read_length(prefix, 0);
    if (size - begin < length) break;
    wire::LedgerEntry entry;
    if (!follows(std::string(at(begin, length)), head, entry)) {
      // Its length was on disk before its bytes.
      if (begin + length == size) break;
      extent.damage =
          fmt::format("the entry at byte {} does not follow the one before it", extent.whole_bytes);
      return extent;
    }
    head = decode_digest(entry.hash());
    visit(unpack(entry), extent.whole_bytes);
    extent.whole_bytes = begin + length;
  }
  extent.torn_bytes = size - extent.whole_bytes;
  return extent;
}

}  // namespace

LedgerExtent scan_entries(std::string_view bytes, const std::string& run_id,
                          const VisitEntry& visit) {
  const auto at = [bytes](std::size_t offset, std::size_t length) {
    return bytes.substr(offset, length);
  };
  return scan(bytes.size(), at, run_id, visit);
}

LedgerExtent scan_records(const std::filesystem::path& path, const std::string& run_id,
                          const VisitEntry& visit) {
  if (!std::filesystem::exists(path)) return {};
  LedgerBytes bytes(path);
  const auto at = [&bytes](std::size_t offset, std::size_t length) {
    return bytes.at(offset, length);
  };
  return scan(bytes.size(), at, run_id, visit);
}

LedgerExtent scan_ledger(const std::filesystem::path& path, const std::string& run_id,
                         const VisitEntry& visit) {
  LedgerExtent extent = scan_records(path, run_id, visit);
  if (!extent.damage.empty()) throw_damaged(path, extent.damage);
  return extent;
}

std::vector<LedgerEntry> read_ledger(const std::filesystem::path& path, const std::string& run_id) {
  std::vector<LedgerEntry> entries;
  scan_ledger(path, run_id,
              [&entries](LedgerEntry entry, std::size_t) { entries.push_back(std::move(entry)); });
  return entries;
}

std::string_view entry_at(LedgerBytes& bytes, std::size_t offset) {
  const std::string_view prefix = bytes.at(offset, kLengthBytes);
  if (prefix.size() < kLengthBytes) return {};
  const std::size_t whole = kLengthBytes + read_length(prefix, 0);
  const std::string_view entry = bytes.at(offset, whole);
  return entry.size() == whole ? entry : std::string_view();
}

std::optional<std::size_t> end_of_entry(std::string_view bytes, std::size_t offset) {
  if (bytes.size() - offset < kLengthBytes) return std::nullopt;
  const std::size_t length = read_length(bytes, offset);
  if (bytes.size() - offset - kLengthBytes < length) return std::nullopt;
  return offset + kLengthBytes + length;
}

LedgerEntry parse_entry(std::string_view entry) {
  wire::LedgerEntry message;
  const std::string_view body = entry.substr(kLengthBytes);
  if (!message.ParseFromArray(body.data(), static_cast<int>(body.size())))
    throw_malformed("an entry cannot be parsed");
  return unpack(message);
}

std::vector<LogEntry> parse_entries(std::string_view bytes) {
  std::vector<LogEntry> entries;
  while (bytes.size() >= kLengthBytes) {
    const std::optional<std::size_t> end = end_of_entry(bytes, 0);
    if (!end) throw_malformed("an entry cannot be parsed");
    entries.push_back(parse_entry(bytes.substr(0, *end)).entry);
    bytes.remove_prefix(*end);
  }
  return entries;
}

std::string content_of(const LogEntry& entry) {
  wire::LogEntry message;
  encode(entry, &message);
  return message.SerializeAsString();
}

std::string ledger_bytes(const std::string& entry, const Digest& hash,
                         const std::optional<Applied>& own, const Sign& sign) {
  wire::LedgerEntry message;
  message.set_entry(entry);
  encode(hash, message.mutable_hash());
  if (sign) message.set_signature(sign(signed_content(hash)));
  if (own) {
    message.set_own_version(own->version);
    encode(own->state, message.mutable_own_state());
    if (sign) message.set_own_signature(sign(signed_content(hash, *own)));
  }
  const std::string body = message.SerializeAsString();
  return inter::little_endian_text(static_cast<Length>(body.size())) + body;
}

std::string_view entry_at(std::string_view bytes, std::size_t offset) {
  return bytes.substr(offset, kLengthBytes + read_length(bytes, offset));
}

std::string signed_anew(std::string_view entry, bool keeps_own, const Sign& sign) {
  wire::LedgerEntry message;
  const std::string_view body = entry.substr(kLengthBytes);
  if (!message.ParseFromArray(body.data(), static_cast<int>(body.size()))) {
    throw_malformed("an entry cannot be parsed");
  }
  std::optional<Applied> own;
  if (keeps_own && !message.own_state().empty()) {
    own = {message.own_version(), decode_digest(message.own_state())};
  }
  return ledger_bytes(message.entry(), decode_digest(message.hash()), own, sign);
}

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
    recovery.lost = fmt::format("ledger/records lost its entries from {} on", committed + 1);
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

namespace {

std::size_t voters_of(const LogEntry& entry) {
  const auto* const members = std::get_if<Membership>(&entry.body);
  return members == nullptr ? 0 : members->voters();
}

// The entry that begins at `offset`, if these bytes are one.
std::optional<wire::LedgerEntry> entry_if_any(std::string_view bytes, std::size_t offset) {
  if (!end_of_entry(bytes, offset)) return std::nullopt;
  const std::string_view body = entry_at(bytes, offset).substr(kLengthBytes);
  wire::LedgerEntry entry;
  const bool parsed = entry.ParseFromArray(body.data(), static_cast<int>(body.size()));
  return parsed && entry.hash().size() == sizeof(Digest) ? std::optional(entry) : std::nullopt;
}

// The entry behind the one that begins at `offset`, if it follows that one's hash as it stands.
std::optional<LogEntry> intact_next(std::string_view bytes, std::size_t offset) {
  const auto before = entry_if_any(bytes, offset);
  const std::size_t next = before ? *end_of_entry(bytes, offset) : bytes.size();
  if (!end_of_entry(bytes, next)) return std::nullopt;
  wire::LedgerEntry entry;
  const std::string body(entry_at(bytes, next).substr(kLengthBytes));
  if (!follows(body, decode_digest(before->hash()), entry)) return std::nullopt;
  return unpack(entry).entry;
}

}  // namespace

// The length of the damaged entry may be wrong, so that the next one can begin anywhere.
std::size_t voters_behind(std::string_view damaged, std::string_view raft) {
  std::size_t voters = 0;
  for (std::size_t at = 0; at < damaged.size();) {
    const std::optional<LogEntry> next = intact_next(damaged, at);
    if (next) voters = std::max(voters, voters_of(*next));
    at = next ? *end_of_entry(damaged, at) : at + 1;
  }
  const auto promises = parse_promises(raft, PlantedBug::none);
  if (!promises) return voters;
  for (const LogEntry& entry : promises->entries) voters = std::max(voters, voters_of(entry));
  return voters;
}

}  // namespace causeway::diloco
