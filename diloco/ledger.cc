#include "diloco/ledger.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>

#include "diloco/error.h"
#include "diloco/file_io.h"
#include "diloco/wire.h"

namespace causeway::diloco {
namespace {

constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kHashBytes = 32;

Digest genesis(const std::string& run_id) {
  return sha256(std::as_bytes(std::span(run_id)));
}

Digest chain(const Digest& previous, const std::string& record) {
  std::string bytes(reinterpret_cast<const char*>(previous.data()), previous.size());
  bytes += record;
  return sha256(std::as_bytes(std::span(bytes)));
}

void append_entry(const std::string& record, const Digest& hash, std::string& out) {
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    out += static_cast<char>((record.size() >> (8 * i)) & 0xFF);
  }
  out += record;
  out.append(reinterpret_cast<const char*>(hash.data()), hash.size());
}

std::size_t read_length(const std::string& content, std::size_t offset) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length |= std::size_t{static_cast<std::uint8_t>(content[offset + i])} << (8 * i);
  }
  return length;
}

[[noreturn]] void throw_damaged(const std::filesystem::path& path, const std::string& what) {
  throw std::system_error(
      make_error_code(Errc::lineage),
      path.string() + " is damaged (" + what +
          "): restore it from a backup, or move the region's directory away and start with --join");
}

}  // namespace

Ledger::Ledger(std::filesystem::path directory) : directory_(std::move(directory)) {
  std::filesystem::create_directories(directory_);
  lock();
  run_id_ = read_file(directory_ / "run").value_or("");
  if (!run_id_.empty() && run_id_.back() == '\n') run_id_.pop_back();
  load_records();
}

Ledger::~Ledger() {
  if (records_fd_ >= 0) ::close(records_fd_);
  if (lock_fd_ >= 0) ::close(lock_fd_);
}

void Ledger::lock() {
  const std::filesystem::path path = directory_ / "lock";
  lock_fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_fd_ < 0) throw_errno("create", path);
  if (::flock(lock_fd_, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock_fd_);
    throw std::system_error(make_error_code(Errc::lineage),
                            "another coordinator uses " + directory_.string() +
                                ": stop it, or give this one a directory of its own");
  }
}

void Ledger::set_run_id(const std::string& run_id) {
  assert(run_id_.empty() && !run_id.empty());
  replace_file(directory_ / "run", run_id + "\n", Durability::on_disk);
  run_id_ = run_id;
  head_ = genesis(run_id_);
}

void Ledger::load_records() {
  const std::filesystem::path path = directory_ / "records";
  records_fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (records_fd_ < 0) throw_errno("create", path);
  head_ = genesis(run_id_);
  const std::string content = read_file(path).value();
  std::size_t offset = 0;
  while (content.size() - offset >= kLengthBytes) {
    const std::size_t length = read_length(content, offset);
    const std::size_t left = content.size() - offset - kLengthBytes;
    if (left < kHashBytes || left - kHashBytes < length) break;
    const std::string record = content.substr(offset + kLengthBytes, length);
    const Digest hash = chain(head_, record);
    const std::size_t end = offset + kLengthBytes + length + kHashBytes;
    const bool intact = std::equal(
        hash.begin(), hash.end(), content.begin() + static_cast<std::ptrdiff_t>(end - kHashBytes),
        [](std::uint8_t a, char b) { return a == static_cast<std::uint8_t>(b); });
    if (!intact && end == content.size()) break;  // torn: its length was on disk before its bytes
    if (!intact)
      throw_damaged(path, "the hash of round " + std::to_string(records_.size()) + " is wrong");
    records_.push_back(parse_commit_record(record));
    if (records_.back().round != records_.size() - 1 || records_.back().run_id != run_id_) {
      throw_damaged(path, "a record of another run or round");
    }
    head_ = hash;
    offset = end;
  }
  if (offset == content.size()) return;
  spdlog::warn("{}: {} bytes of an unfinished entry were cut off", path.string(),
               content.size() - offset);
  if (::ftruncate(records_fd_, static_cast<off_t>(offset)) != 0) throw_errno("truncate", path);
}

void Ledger::append(std::span<const CommitRecord> records) {
  const std::filesystem::path path = directory_ / "records";
  std::string entries;
  for (const CommitRecord& record : records) {
    assert(record.round == records_.size());
    const std::string bytes = serialize(record);
    head_ = chain(head_, bytes);
    append_entry(bytes, head_, entries);
    records_.push_back(record);
  }
  write_all(records_fd_, std::as_bytes(std::span(entries)), path);
  if (::fsync(records_fd_) != 0) throw_errno("fsync", path);
}

std::optional<Contribution> Ledger::contribution() const {
  const std::optional<std::string> bytes = read_file(directory_ / "contribution");
  if (!bytes) return std::nullopt;
  return parse_contribution(*bytes);
}

void Ledger::save(const Contribution& contribution) {
  replace_file(directory_ / "contribution", serialize(contribution), Durability::on_disk);
}

std::optional<Snapshot> Ledger::snapshot() const {
  const std::optional<std::string> bytes = read_file(directory_ / "snapshot");
  if (!bytes) return std::nullopt;
  wire::Snapshot message;
  if (!message.ParseFromString(*bytes)) throw_damaged(directory_ / "snapshot", "not a snapshot");
  return decode(message);
}

void Ledger::save(const Snapshot& snapshot) {
  wire::Snapshot message;
  encode(snapshot, &message);
  replace_file(directory_ / "snapshot", message.SerializeAsString(), Durability::on_disk);
}

}  // namespace causeway::diloco
