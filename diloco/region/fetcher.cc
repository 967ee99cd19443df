#include "diloco/region/fetcher.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace causeway::diloco {
namespace {

using std::chrono::seconds;

// Longer than any round trip; a bulk queue behind a slow link may still make a request superfluous,
// which costs bytes but no harm.
constexpr Time kRetryMin = seconds{5};
constexpr int kSpoiltMax = 3;
constexpr std::size_t kQueuedMax = 30;     // some five minutes
constexpr std::size_t kForgoneMax = 4096;  // that are remembered

}  // namespace

std::vector<Fetcher::Request> Fetcher::set_wanted(const std::map<inter::BlobId, Want>& wanted,
                                                  Time now) {
  std::vector<Request> forgone;
  std::erase_if(entries_, [&](const auto& entry) {
    if (wanted.contains(entry.first)) return false;
    for (const std::string& peer : entry.second.senders) forgone.push_back({peer, entry.first});
    return true;
  });
  bool make_way = false;
  for (const auto& [blob, want] : wanted) {
    const auto [entry, added] = entries_.try_emplace(blob);
    entry->second.senders.insert(want.source);
    make_way = make_way || (want.first && !entry->second.first);
    entry->second.first = want.first;
    if (!added) {
      entry->second.rank = want.rank;
      if (entry->second.source == want.source) continue;
      // A likelier holder: it is asked next.
      entry->second.source = want.source;
      entry->second.attempts = 0;
      continue;
    }
    const bool turned_away = forgone_.erase(blob) > 0;
    const bool comes = want.under_way && !turned_away;
    entry->second = {.source = want.source,
                     .rank = want.rank,
                     .first = want.first,
                     .asked = comes ? want.source : std::string(),
                     .senders = {want.source},
                     .retry_after = kRetryMin,
                     .ask_at = comes ? now + kRetryMin : now};
  }
  if (make_way) this->make_way(now, forgone);
  return forgone;
}

void Fetcher::note_forgone(const inter::BlobId& blob) {
  if (forgone_.size() >= kForgoneMax) forgone_.clear();
  forgone_.insert(blob);
}

// What was asked for before would come before it, and a single blob may take a minute. It is asked
// for anew, behind it; what of it is here or under way stays.
void Fetcher::make_way(Time now, std::vector<Request>& forgone) {
  for (auto& [blob, entry] : entries_) {
    if (entry.first || entry.attempts == 0) continue;
    for (const std::string& peer : std::exchange(entry.senders, {entry.source}))
      forgone.push_back({peer, blob});
    entry.asked.clear();
    entry.attempts = entry.unanswered = entry.queued = 0;
    entry.ask_at = now;
  }
}

std::uint64_t Fetcher::on_progress(const inter::BlobId& blob, std::uint64_t received_bytes,
                                   Time now) {
  const auto found = entries_.find(blob);
  if (found == entries_.end()) return 0;
  Entry& entry = found->second;
  // What had arrived was not the blob, and comes again. Whoever sends the wrong bytes again and
  // again is not waited for as one that makes progress.
  if (received_bytes < entry.received_bytes && entry.spoilt < kSpoiltMax) {
    ++entry.spoilt;
    entry.received_bytes = 0;
  }
  if (received_bytes <= entry.received_bytes) return 0;
  const std::uint64_t growth_bytes = received_bytes - entry.received_bytes;
  entry.received_bytes = received_bytes;
  entry.unanswered = entry.queued = 0;
  if (!entry.asked.empty()) sent_at_[entry.asked] = now;
  entry.absent_at.clear();
  in_vain_.erase(blob);
  entry.retry_after = kRetryMin;
  entry.ask_at = now + kRetryMin;
  return growth_bytes;
}

void Fetcher::on_absent(const std::string& peer, const inter::BlobId& blob, Time now) {
  const auto found = entries_.find(blob);
  if (found == entries_.end() || found->second.asked != peer) return;
  // Not again and again at once: who said so before may have it later.
  if (!found->second.absent_at.insert(peer).second) return;
  found->second.asked.clear();
  found->second.ask_at = now;
}

bool Fetcher::nobody_has(const inter::BlobId& blob, const std::set<std::string>& up) const {
  const auto found = entries_.find(blob);
  return found != entries_.end() && std::ranges::includes(found->second.absent_at, up);
}

void Fetcher::on_peer_up(const std::string& peer, Time now) {
  in_vain_.clear();
  for (auto& [blob, entry] : entries_) {
    entry.absent_at.erase(peer);
    if (entry.asked.empty() || entry.source == peer) entry.ask_at = std::min(entry.ask_at, now);
  }
}

void Fetcher::on_peer_down(const std::string& peer, Time now) {
  for (auto& [blob, entry] : entries_) {
    if (entry.asked != peer) continue;
    entry.asked.clear();
    entry.ask_at = now;
  }
}

// The source first, then the others in turn.
const std::string& Fetcher::choose(const Entry& entry, const std::set<std::string>& up) {
  const auto source = up.find(entry.source);
  if (entry.attempts == 0 && source != up.end()) return *source;
  return *std::next(up.begin(), static_cast<std::ptrdiff_t>(entry.attempts % up.size()));
}

// The peer sends something else first. One that withholds the blob could look like that, too, so
// patience ends.
bool Fetcher::is_queued(Entry& entry, Time now) const {
  const auto sent = sent_at_.find(entry.asked);
  const bool sends = sent != sent_at_.end() && now - sent->second <= kRetryMax;
  return sends && ++entry.queued <= kQueuedMax;
}

std::vector<Fetcher::Request> Fetcher::due(const std::set<std::string>& up, Time now) {
  std::vector<Request> requests;
  if (up.empty()) return requests;
  for (auto& [blob, entry] : entries_) {
    if (entry.ask_at > now) continue;
    entry.asked = choose(entry, up);
    entry.senders.insert(entry.asked);
    ++entry.attempts;
    if (!is_queued(entry, now) && ++entry.unanswered > 2 * up.size()) in_vain_.insert(blob);
    entry.ask_at = now + entry.retry_after;
    entry.retry_after = std::min(2 * entry.retry_after, kRetryMax);
    requests.push_back({entry.asked, blob});
  }
  std::ranges::stable_sort(
      requests, {}, [this](const Request& request) { return entries_.at(request.blob).rank; });
  return requests;
}

std::optional<Time> Fetcher::next_deadline() const {
  std::optional<Time> next;
  for (const auto& [blob, entry] : entries_) {
    if (!next || entry.ask_at < *next) next = entry.ask_at;
  }
  return next;
}

std::vector<inter::BlobId> Fetcher::wanted() const {
  std::vector<inter::BlobId> blobs;
  for (const auto& [blob, entry] : entries_) blobs.push_back(blob);
  return blobs;
}

std::uint64_t Fetcher::received_bytes(const inter::BlobId& blob) const {
  const auto found = entries_.find(blob);
  return found == entries_.end() ? 0 : found->second.received_bytes;
}

}  // namespace causeway::diloco
