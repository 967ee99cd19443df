#include "diloco/follow/growing_ledger.h"

#include <fcntl.h>

#include <algorithm>
#include <span>
#include <system_error>

#include "diloco/ledger/ledger_files.h"
#include "inter/base/file.h"

namespace causeway::diloco {
namespace {

namespace fs = std::filesystem;

fs::path records_file(const fs::path& directory) {
  return directory / "ledger" / "records";
}

// Whoever owns a file that is damaged says so; a follower does without it.
template <typename Read>
auto unless_damaged(const Read& read) -> decltype(read()) {
  try {
    return read();
  } catch (const std::system_error&) {
    return {};
  }
}

}  // namespace

void GrowingLedger::look() {
  std::error_code missing;
  const std::uintmax_t size = fs::file_size(records_file(directory_), missing);
  if (missing || size <= end_) return;
  const std::string added = read(end_, size);
  std::size_t begin = 0;
  while (const auto end = end_of_entry(added, begin)) {
    offsets_.push_back(end_ + begin);
    begin = *end;
  }
  end_ += begin;
  size_ = offsets_.size();
  if (!region_.empty()) return;
  heads_ = read_heads(directory_ / "ledger");
  size_ = heads_.empty() ? 0 : std::min<std::uint64_t>(size_, heads_.front().entries);
}

bool GrowingLedger::finished() const {
  return fs::exists(directory_ / "ledger" / "finished");
}

std::string GrowingLedger::run_id() const {
  return unless_damaged([&] { return read_run_id(directory_ / "ledger"); });
}

std::optional<Snapshot> GrowingLedger::snapshot() const {
  return unless_damaged([&] { return read_snapshot(directory_ / "ledger" / "snapshot"); });
}

std::optional<Applied> GrowingLedger::finish() const {
  const auto finished = unless_damaged([&] { return read_finished(directory_ / "ledger"); });
  return finished ? std::optional(finished->at) : std::nullopt;
}

std::uint64_t GrowingLedger::last_told(std::uint64_t first, std::uint32_t most) const {
  std::uint64_t last = first;
  const auto fits = [&](std::uint64_t next) {
    return next < size_ && offsets_[next] - offsets_[first] < kAnswerBytes &&
           (most == 0 || next - first < most);
  };
  while (fits(last + 1)) ++last;
  return last;
}

FollowerAnswer GrowingLedger::answer(std::uint64_t first, std::uint32_t most) const {
  FollowerAnswer answer{.run_id = run_id(),
                        .first = first,
                        .known = size(),
                        .heads = heads_,
                        .snapshot = snapshot(),
                        .finished = finish()};
  if (first >= size()) return answer;
  const std::uint64_t last = last_told(first, most);
  const std::string bytes =
      read(offsets_[first], last + 1 < offsets_.size() ? offsets_[last + 1] : end_);
  answer.entries = parse_entries(bytes);
  if (region_.empty()) return answer;
  const LedgerEntry newest =
      parse_entry(std::string_view(bytes).substr(offsets_[last] - offsets_[first]));
  answer.heads.push_back({.region = region_,
                          .certificate = certificate_,
                          .entries = last + 1,
                          .signature = newest.signature});
  return answer;
}

std::string GrowingLedger::read(std::size_t begin, std::size_t end) const {
  std::string bytes(end - begin, '\0');
  const inter::File file(records_file(directory_), O_RDONLY | O_CLOEXEC);
  bytes.resize(file.read_at(begin, std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

}  // namespace causeway::diloco
