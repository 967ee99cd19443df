#include "diloco/coordinator/archive_fill.h"

#include <algorithm>
#include <variant>

#include <spdlog/spdlog.h>

#include "diloco/files/archive.h"
#include "inter/blob/spool_files.h"

namespace causeway::diloco {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::size_t kAtOnce = 2;          // what the round needs comes first
constexpr std::size_t kEntriesAtOnce = 64;  // looked at
constexpr seconds kPeerPatience{5};         // with a peer from which nothing comes
constexpr minutes kTryAgain{1};

}  // namespace

void ArchiveFill::look(Round applied, const std::vector<std::string>& up, TimePoint now) {
  keep_arrived();
  find_more(applied, now);
  ask(up, now);
}

bool ArchiveFill::is_kept(const inter::BlobId& blob) const {
  return spool_.has(blob) || exists(inter::blob_path(archive_directory(directory_), blob));
}

bool ArchiveFill::awaits(const inter::BlobId& blob) {
  if (!wanted_.contains(blob)) return false;
  keep_arrived();
  return wanted_.contains(blob) && has_room_for(blob);
}

bool ArchiveFill::has_room_for(const inter::BlobId& blob) const {
  return spool_.free_bytes() >= 2 * blob.size_bytes;
}

// The spool lets go of them by itself: nothing there names them.
void ArchiveFill::keep_arrived() {
  std::erase_if(wanted_, [this](const auto& want) {
    if (!spool_.has(want.first)) return false;
    archive(directory_, spool_.path(want.first));
    ++fetched_;
    told_of_gap_ = false;
    return true;
  });
  if (!wanted_.empty() || fetched_ == 0) return;
  spdlog::info("archive: fetched {} payloads of rounds in which this region was away", fetched_);
  fetched_ = 0;
}

void ArchiveFill::find_more(Round applied, TimePoint now) {
  if (!nobodys_.empty() && now >= again_at_) {
    nobodys_.clear();
    next_ = 1;
    blocked_ = 0;
  }
  if (wanted_.size() >= kAtOnce || applied <= blocked_) return;
  const Index committed = ledger_.committed();
  const Index end = std::min<Index>(committed + 1, next_ + kEntriesAtOnce);
  for (const LogEntry& entry : ledger_.read(next_, end - next_)) {
    const auto* record = std::get_if<CommitRecord>(&entry.body);
    if (record != nullptr) {
      if (record->round >= applied) blocked_ = applied;
      if (record->round >= applied || wanted_.size() >= kAtOnce) return;
      for (const inter::BlobId& blob : applied_blobs(*record))
        if (!nobodys_.contains(blob) && !is_kept(blob)) wanted_[blob];
    }
    ++next_;
  }
}

void ArchiveFill::ask(const std::vector<std::string>& up, TimePoint now) {
  if (up.empty()) return;
  for (auto want = wanted_.begin(); want != wanted_.end();) {
    auto& [blob, state] = *want;
    const std::uint64_t received = spool_.received_bytes(blob);
    if (received > state.received_bytes) {
      state = {.ask_at = now + kPeerPatience, .asked = state.asked, .received_bytes = received};
    }
    if (now < state.ask_at || !has_room_for(blob)) {
      ++want;
      continue;
    }
    if (state.asked >= 2 * up.size()) {
      nobodys_.insert(blob);
      if (!std::exchange(told_of_gap_, true)) tell_of_gap();
      again_at_ = now + kTryAgain;
      want = wanted_.erase(want);
      continue;
    }
    fetch_(up[state.asked++ % up.size()], blob);
    state.ask_at = now + kPeerPatience;
    ++want;
  }
}

void ArchiveFill::tell_of_gap() {
  spdlog::warn(
      "archive: a payload of a round in which this region was away is missing, and no region "
      "within reach has it: only regions with ledger.keep = \"all\" keep such payloads. The "
      "regions are asked again every minute. Without it, a replay needs the directories of other "
      "regions as well");
}

}  // namespace causeway::diloco
