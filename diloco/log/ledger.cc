#include "diloco/log/ledger.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>

#include "diloco/files/error.h"
#include "diloco/files/file_io.h"
#include "diloco/files/random_name.h"
#include "diloco/log/wire.h"
#include "diloco/maths/hash_chain.h"

namespace causeway::diloco {
namespace {

// Entries that are read at once, and kept in memory when a coordinator starts.
constexpr Index kStride = 64;

// A one-line file; empty if it does not exist.
std::string read_line(const std::filesystem::path& path) {
  std::string line = read_file(path).value_or("");
  if (!line.empty() && line.back() == '\n') line.pop_back();
  return line;
}

std::string serialize(const LogEntry& entry) {
  wire::LogEntry message;
  encode(entry, &message);
  return message.SerializeAsString();
}

template <typename Wire>
Wire parse_file(const std::filesystem::path& path) {
  Wire message;
  if (!message.ParseFromString(read_file(path).value_or("")))
    throw_damaged(path, "cannot be parsed");
  return message;
}

}  // namespace

std::optional<Snapshot> read_snapshot(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  const auto file = parse_file<wire::Snapshot>(path);
  try {
    return decode(file);
  } catch (const std::system_error& error) {
    throw_damaged(path, error.what());
  }
}

std::optional<SignedFinish> read_finished(const std::filesystem::path& ledger_directory) {
  const std::filesystem::path path = ledger_directory / "finished";
  if (!std::filesystem::exists(path)) return std::nullopt;
  const auto file = parse_file<wire::FinishedFile>(path);
  if (file.state().size() != sizeof(Digest)) throw_damaged(path, "has no state");
  return SignedFinish{.at = {file.version(), decode_digest(file.state())},
                      .signature = file.signature()};
}

std::string read_run_id(const std::filesystem::path& ledger_directory) {
  return read_line(ledger_directory / "run");
}

Ledger::Ledger(std::filesystem::path directory, Sign sign)
    : directory_(std::move(directory)), sign_(std::move(sign)) {
  create_private_directories(directory_);
  lock();
  run_id_ = read_run_id(directory_);
  open_incarnation();
  open_records();
}

Ledger::~Ledger() {
  if (records_fd_ >= 0) ::close(records_fd_);
}

void Ledger::lock() {
  std::optional<Descriptor> lock = lock_file(directory_ / "lock");
  if (!lock) {
    throw std::system_error(make_error_code(Errc::lineage),
                            "another coordinator uses " + directory_.string() +
                                ": stop it, or give this one a directory of its own");
  }
  lock_ = std::move(*lock);
}

void Ledger::open_incarnation() {
  const std::filesystem::path path = directory_ / "incarnation";
  incarnation_ = read_line(path);
  if (is_random_name(incarnation_)) return;
  if (!incarnation_.empty() || std::filesystem::exists(directory_ / "records")) {
    throw_damaged(path, "missing or garbled: this directory no longer knows what it promised");
  }
  incarnation_ = random_name();
  replace_file(path, incarnation_ + "\n", Durability::on_disk);
}

void Ledger::set_run_id(const std::string& run_id) {
  assert(run_id_.empty() && !run_id.empty());
  replace_file(directory_ / "run", run_id + "\n", Durability::on_disk);
  run_id_ = run_id;
  head_ = chain_start(run_id_);
}

// Entries without a run are cut off as unfinished.
void Ledger::found(const std::string& run_id, const LogEntry& first) {
  assert(run_id_.empty() && committed_ == 0);
  head_ = chain_start(run_id);
  append(std::span(&first, 1));
  replace_file(directory_ / "run", run_id + "\n", Durability::on_disk);
  run_id_ = run_id;
}

void Ledger::open_records() {
  const std::filesystem::path path = directory_ / "records";
  records_fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (records_fd_ < 0) throw_errno("create", path);
  head_ = chain_start(run_id_);
  const LedgerExtent extent =
      scan_ledger(path, run_id_, [this](const LedgerEntry& entry, std::size_t offset) {
        head_ = entry.hash;
        note_offset(offset);
      });
  records_bytes_ = extent.whole_bytes;
  if (extent.torn_bytes == 0) return;
  spdlog::warn("{}: {} bytes of an unfinished entry were cut off", path.string(),
               extent.torn_bytes);
  if (::ftruncate(records_fd_, static_cast<off_t>(extent.whole_bytes)) != 0) {
    throw_errno("truncate", path);
  }
}

// The next entry begins there.
void Ledger::note_offset(std::size_t offset) {
  if (committed_++ % kStride == 0) offsets_.push_back(offset);
}

// ---- The log ----

RaftState Ledger::raft() const {
  const auto file = parse_file<wire::RaftFile>(directory_ / "raft");
  // Nothing is promised only before a founder's first entry has a second.
  if (file.term() == 0 && committed_ > 1) {
    throw_damaged(directory_ / "raft", "missing: this directory no longer knows what it promised");
  }
  const Index newest = std::min<Index>(committed_, kStride);
  RaftState state{.term = file.term(),
                  .vote = file.vote(),
                  .log = read(committed_ + 1 - newest, newest),
                  .committed = committed_,
                  .first = committed_ + 1 - newest,
                  .earlier = this};
  if (file.entries_size() > 0 && file.first_index() > state.committed + 1) {
    throw_damaged(directory_ / "records", "entries are missing at its end");
  }
  for (int i = 0; i < file.entries_size(); ++i) {
    const Index index = file.first_index() + static_cast<Index>(i);
    if (index > state.committed) state.log.push_back(decode(file.entries(i)));
  }
  for (const LogEntry& entry : state.log) state.term = std::max(state.term, entry.term);
  return state;
}

std::vector<LogEntry> Ledger::read(Index first, std::size_t count) const {
  if (count == 0) return {};
  assert(first > 0 && first + count - 1 <= committed_);
  const std::size_t before = (first - 1) / kStride;  // entries that begin a stretch
  const std::size_t after = (first + count - 2) / kStride + 1;
  const std::size_t begin = offsets_[before];
  const std::size_t end = after < offsets_.size() ? offsets_[after] : records_bytes_;
  std::string bytes(end - begin, '\0');
  const inter::File file(directory_ / "records", O_RDONLY);
  bytes.resize(file.read_at(begin, std::as_writable_bytes(std::span(bytes))));
  std::vector<LogEntry> entries = parse_entries(bytes);
  const std::size_t skipped = first - 1 - before * kStride;
  if (entries.size() < skipped + count) {
    throw_damaged(directory_ / "records", "entries that were there are gone");
  }
  entries.erase(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(skipped));
  entries.resize(count);
  return entries;
}

void Ledger::append(std::span<const LogEntry> entries, const std::optional<Applied>& own) {
  const std::filesystem::path path = directory_ / "records";
  std::string bytes;
  for (const LogEntry& entry : entries) {
    const std::string content = serialize(entry);
    head_ = chain_next(head_, content);
    note_offset(records_bytes_ + bytes.size());
    bytes += ledger_bytes(content, head_, own, sign_);
  }
  write_all(records_fd_, std::as_bytes(std::span(bytes)), path);
  records_bytes_ += bytes.size();
  if (::fsync(records_fd_) != 0) throw_errno("fsync", path);
}

void Ledger::save_raft(Term term, const std::string& vote, Index first_index,
                       std::span<const LogEntry> entries) {
  wire::RaftFile file;
  file.set_term(term);
  file.set_vote(vote);
  file.set_first_index(first_index);
  for (const LogEntry& entry : entries) encode(entry, file.add_entries());
  replace_file(directory_ / "raft", file.SerializeAsString(), Durability::on_disk);
}

// ---- What is this region's own ----

std::vector<Contribution> Ledger::contributions() const {
  std::vector<Contribution> contributions;
  const auto file = parse_file<wire::Contributions>(directory_ / "contributions");
  for (const wire::Contribution& one : file.contributions()) contributions.push_back(decode(one));
  return contributions;
}

void Ledger::save(std::span<const Contribution> contributions) {
  wire::Contributions file;
  for (const Contribution& one : contributions) encode(one, file.add_contributions());
  replace_file(directory_ / "contributions", file.SerializeAsString(), Durability::on_disk);
}

std::optional<Snapshot> Ledger::snapshot() const {
  return read_snapshot(directory_ / "snapshot");
}

void Ledger::save(const Snapshot& snapshot) {
  wire::Snapshot message;
  encode(snapshot, &message);
  replace_file(directory_ / "snapshot", message.SerializeAsString(), Durability::on_disk);
}

std::optional<Applied> Ledger::finished() const {
  const std::optional<SignedFinish> finished = read_finished(directory_);
  return finished ? std::optional(finished->at) : std::nullopt;
}

void Ledger::save_finished(Round version, const Digest& state) {
  wire::FinishedFile file;
  file.set_version(version);
  encode(state, file.mutable_state());
  if (sign_) file.set_signature(sign_(signed_content(head_, {version, state})));
  replace_file(directory_ / "finished", file.SerializeAsString(), Durability::on_disk);
}

}  // namespace causeway::diloco
