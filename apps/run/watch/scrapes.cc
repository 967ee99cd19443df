#include "apps/run/watch/scrapes.h"

#include <algorithm>

namespace causeway::run {
namespace {

// Bounds of twice the time between two scrapes: a busy host is late, and a stopped one is not
// waited for.
constexpr std::chrono::seconds kAwaitedMin{5};
constexpr std::chrono::minutes kAwaitedMax{2};
constexpr std::size_t kScrapersMax = 64;

}  // namespace

void Scrapes::add(const std::string& scraper, Clock::time_point now, bool shows_end) {
  if (scrapers_.size() >= kScrapersMax && !scrapers_.contains(scraper)) {
    scrapers_.erase(std::ranges::min_element(scrapers_, {},
                                             [](const auto& known) { return known.second.last; }));
  }
  const auto [known, is_new] = scrapers_.try_emplace(scraper, Scraper{.last = now});
  if (!is_new) known->second.interval = now - known->second.last;
  known->second.last = now;
  known->second.saw_end = shows_end;
}

Scrapes::Clock::time_point Scrapes::awaited_until() const {
  Clock::time_point until = Clock::time_point::min();
  for (const auto& [address, scraper] : scrapers_) {
    if (!scraper.interval || scraper.saw_end) continue;
    until = std::max(until, scraper.last + std::clamp<Clock::duration>(2 * *scraper.interval,
                                                                       kAwaitedMin, kAwaitedMax));
  }
  return until;
}

}  // namespace causeway::run
