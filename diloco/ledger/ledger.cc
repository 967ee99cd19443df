#include "diloco/ledger/ledger.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <map>

#include "diloco/files/error.h"
#include "diloco/files/file_io.h"
#include "diloco/ledger/ledger_bytes.h"
#include "diloco/ledger/ledger_file.h"
#include "diloco/ledger/ledger_files.h"
#include "diloco/maths/digest.h"
#include "inter/base/file.h"

namespace causeway::diloco {
namespace {

// Entries that are read at once, and kept in memory when a coordinator starts.
constexpr Index kStride = 64;
// Entries whose signatures a start checks, although this region made them: half a second's.
constexpr Index kUncheckedMax = 1024;

}  // namespace

Ledger::Ledger(std::filesystem::path directory, Sign sign, const IsSigned& check,
               const std::string& key)
    : directory_(std::move(directory)), sign_(std::move(sign)) {
  create_private_directories(directory_);
  lock();
  run_id_ = read_run_id(directory_);
  open_incarnation();
  if (sign_ && check) {
    if (!key.empty()) checked_.emplace(directory_ / "checked-signatures", key);
    mend_signatures(check);
  }
  open_records();
}

Ledger::~Ledger() {
  if (records_fd_ >= 0) ::close(records_fd_);
}

void Ledger::lock() {
  std::optional<Descriptor> lock = lock_file(directory_ / "lock");
  if (!lock) {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again),
                            "another coordinator uses " + directory_.string() +
                                ": stop it, or give this one a directory of its own" +
                                lock_holder(directory_ / "lock"));
  }
  lock_ = std::move(*lock);
}

void Ledger::open_incarnation() {
  incarnation_ = read_incarnation(directory_);
  if (incarnation_.empty() && !std::filesystem::exists(directory_ / "records")) rename_voter();
}

// From here on it promises under another name.
void Ledger::rename_voter() {
  incarnation_ = random_name();
  write_incarnation(directory_, incarnation_);
}

void Ledger::set_run_id(const std::string& run_id) {
  assert(run_id_.empty() && !run_id.empty());
  write_run_id(directory_, run_id);
  run_id_ = run_id;
  head_ = chain_start(run_id_);
}

void Ledger::change_run_id(const std::string& run_id) {
  assert(!run_id_.empty() && committed_ == 0);
  rename_voter();
  save_raft(1, "", 1, {});
  run_id_.clear();
  set_run_id(run_id);
}

// Entries without a run are cut off as unfinished.
void Ledger::found(const std::string& run_id, const LogEntry& first) {
  assert(run_id_.empty() && committed_ == 0);
  head_ = chain_start(run_id);
  append(std::span(&first, 1));
  write_run_id(directory_, run_id);
  run_id_ = run_id;
}

namespace {

struct WronglySigned {
  Index index;
  std::size_t offset;
  std::optional<Applied> own;
};

// Of the entries of `bytes`. Returns how many no longer say which state the region had.
std::size_t sign_anew(std::string& bytes, const std::vector<WronglySigned>& wrong,
                      const std::map<Round, Digest>& agreed, const Sign& sign) {
  std::string mended;
  std::size_t copied = 0, unconfirmed = 0;
  for (const auto& [index, offset, own] : wrong) {
    const auto known = own ? agreed.find(own->version) : agreed.end();
    const bool keeps_own = known != agreed.end() && known->second == own->state;
    if (own && !keeps_own) ++unconfirmed;
    const auto entry = entry_at(bytes, offset);
    mended.append(bytes, copied, offset - copied);
    mended += signed_anew(entry, keeps_own, sign);
    copied = offset + entry.size();
  }
  bytes = mended.append(bytes, copied);
  return unconfirmed;
}

}  // namespace

// No hash holds them, and whoever compares this region with others needs them. An entry is what its
// hash says it is, whatever became of its signature. What it says of this region's own state only
// the signature vouched for: it stays if it is the state that the run agreed on.
void Ledger::mend_signatures(const IsSigned& check) {
  const std::filesystem::path path = directory_ / "records";
  if (!std::filesystem::exists(path)) return;
  std::size_t checked = 0;
  if (checked_) {
    LedgerBytes bytes(path);
    checked = checked_->take(bytes);
    if (checked == bytes.size()) return;
  }
  Index entries = 0;
  std::vector<WronglySigned> wrong;
  std::map<Round, Digest> agreed;
  scan_records(path, run_id_, [&](const LedgerEntry& entry, std::size_t offset) {
    ++entries;
    head_ = entry.hash;
    if (const auto* record = std::get_if<CommitRecord>(&entry.entry.body))
      agreed[record->round] = record->state;
    if (offset < checked || is_signed(entry, check)) return;
    wrong.push_back({.index = entries, .offset = offset, .own = entry.own});
  });
  if (!wrong.empty()) {
    std::string bytes = read_file(path).value_or("");
    const std::size_t unconfirmed = sign_anew(bytes, wrong, agreed, sign_);
    if (wrong.size() == entries) sign_finished_anew();
    replace_file(path, bytes, Durability::on_disk);
    spdlog::error(
        "{}: the signatures of {} of {} entries, entry {} first, were not this region's and were "
        "made anew: the disk changed them, or this region has another key than when it wrote them. "
        "{} of them no longer say which state this region contributed from",
        path.string(), wrong.size(), entries, wrong.front().index, unconfirmed);
  }
  if (!checked_) return;
  LedgerBytes bytes(path);
  checked_->add_up_to(entries, bytes, checked);
  checked_->save();
}

// With another key. First, as the entries tell the next start that this is to be done.
void Ledger::sign_finished_anew() {
  const std::optional<Applied> end = finished();
  if (end) save_finished(end->version, end->state);
}

void Ledger::open_records() {
  const std::filesystem::path path = directory_ / "records";
  records_fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (records_fd_ < 0) throw_errno("create", path);
  head_ = chain_start(run_id_);
  Membership newest;
  const LedgerExtent extent =
      scan_records(path, run_id_, [&](const LedgerEntry& entry, std::size_t offset) {
        head_ = entry.hash;
        note_offset(offset);
        const auto* members = std::get_if<Membership>(&entry.entry.body);
        if (members != nullptr) newest = *members;
      });
  records_bytes_ = extent.whole_bytes;
  recover_promises(extent, newest);
  if (extent.torn_bytes == 0) return;
  spdlog::warn("{}: {} bytes of an unfinished entry were cut off", path.string(),
               extent.torn_bytes);
  cut_records(extent.whole_bytes);
}

// What was lost is lost by the disk that had promised it: another one takes its place, before what
// is left of the files is put in order.
void Ledger::recover_promises(const LedgerExtent& extent, const Membership& newest) {
  const Recovery recovery =
      recover(extent, committed_, read_file(directory_ / "raft").value_or(""));
  const std::string lost = incarnation_.empty() ? "ledger/incarnation is damaged" : recovery.lost;
  if (!lost.empty()) {
    if (!others_may_have_it(extent, newest, recovery)) throw_damaged(directory_, lost);
    spdlog::error(
        "{}: {}. What was behind it is not used. This region has no vote until the others have "
        "given it a new one, and gets the rest of the log from them. Check the disk",
        directory_.string(), lost);
    rename_voter();
  }
  const bool unfinished = lost.empty() && extent.damage.empty();
  if (!unfinished) set_damaged_aside(extent.whole_bytes);
  if (lost.empty()) return;
  const Promises& rest = recovery.promises;
  save_raft(std::max<Term>(rest.term, 1), "", rest.first_index, {});
}

// Nobody else has what only this region knew: others have it once they vote. Which of them do, the
// entries that are lost may have said. Then it is enough that the others are named: at worst this
// region waits for some that have nothing.
bool Ledger::others_may_have_it(const LedgerExtent& extent, const Membership& newest,
                                const Recovery& recovery) const {
  const std::string all = read_file(directory_ / "records").value_or("");
  const std::string_view damaged = std::string_view(all).substr(extent.whole_bytes);
  const std::string raft = read_file(directory_ / "raft").value_or("");
  if (std::max(newest.voters(), voters_behind(damaged, raft)) >= 2) return true;
  const bool promises_are_whole = recovery.promises.term > 0;
  const bool lacks_entries = !damaged.empty() || (promises_are_whole && !recovery.lost.empty());
  return lacks_entries && newest.members.size() >= 2;
}

// What is behind the entries that are whole.
void Ledger::set_damaged_aside(std::size_t whole_bytes) {
  const std::string all = read_file(directory_ / "records").value_or("");
  if (all.size() <= whole_bytes) return;
  replace_file(directory_ / "records.damaged", all.substr(whole_bytes), Durability::on_disk);
  cut_records(whole_bytes);
}

void Ledger::cut_records(std::size_t bytes) {
  if (::ftruncate(records_fd_, static_cast<off_t>(bytes)) != 0) {
    throw_errno("truncate", directory_ / "records");
  }
}

// The next entry begins there.
void Ledger::note_offset(std::size_t offset) {
  if (committed_++ % kStride == 0) offsets_.push_back(offset);
}

// ---- The log ----

RaftState Ledger::raft() const {
  const auto [promises, lost] =
      recover({}, committed_, read_file(directory_ / "raft").value_or(""));
  if (!lost.empty()) throw_damaged(directory_, lost);
  const Index newest = std::min<Index>(committed_, kStride);
  RaftState state{.term = promises.term,
                  .vote = promises.vote,
                  .log = read(committed_ + 1 - newest, newest),
                  .committed = committed_,
                  .first = committed_ + 1 - newest,
                  .earlier = this};
  state.log.insert(state.log.end(), promises.entries.begin(), promises.entries.end());
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
    const std::string content = content_of(entry);
    head_ = chain_next(head_, content);
    note_offset(records_bytes_ + bytes.size());
    const std::string one = ledger_bytes(content, head_, own, sign_);
    if (checked_) checked_->add(one);
    bytes += one;
  }
  write_all(records_fd_, std::as_bytes(std::span(bytes)), path);
  records_bytes_ += bytes.size();
  if (::fsync(records_fd_) != 0) throw_errno("fsync", path);
  if (checked_ && checked_->unsaved() >= kUncheckedMax) checked_->save();
}

void Ledger::save_raft(Term term, const std::string& vote, Index first_index,
                       std::span<const LogEntry> entries) {
  const Promises promises{term, vote, first_index, {entries.begin(), entries.end()}};
  replace_file(directory_ / "raft", raft_bytes(promises), Durability::on_disk);
}

// ---- What is this region's own ----

std::vector<Contribution> Ledger::contributions() const {
  return read_contributions(directory_);
}

void Ledger::save(std::span<const Contribution> contributions) {
  write_contributions(directory_, contributions);
}

std::optional<Snapshot> Ledger::snapshot() const {
  return read_snapshot(directory_ / "snapshot");
}

void Ledger::save(const Snapshot& snapshot) {
  write_snapshot(directory_ / "snapshot", snapshot);
}

std::optional<Applied> Ledger::finished() const {
  const std::optional<SignedFinish> finished = read_finished(directory_);
  return finished ? std::optional(finished->at) : std::nullopt;
}

void Ledger::save_finished(Round version, const Digest& state) {
  const Applied at{version, state};
  write_finished(directory_, {at, sign_ ? sign_(signed_content(head_, at)) : ""});
}

// Damaged, it says nothing of an end any more, and would keep the region from its next start.
void Ledger::void_finished_after(Round round) {
  try {
    const std::optional<Applied> end = finished();
    if (!end || end->version <= round) return;
  } catch (const std::system_error& error) {
    if (error.code() != Errc::lineage) throw;
    spdlog::warn("{}; it is removed, as rounds are taken back", error.what());
  }
  std::filesystem::remove(directory_ / "finished");
  inter::sync_directory(directory_);
}

}  // namespace causeway::diloco
