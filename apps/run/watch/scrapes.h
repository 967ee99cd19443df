// Who reads this process's metrics again and again, and for how long it must stay after the end of
// its run so that each of them reads that it ended well. Pure: told of scrapes and of the time.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

namespace causeway::run {

class Scrapes {
 public:
  using Clock = std::chrono::steady_clock;

  // `scraper`: its address. `shows_end`: the page that it got says that the run is over.
  void add(const std::string& scraper, Clock::time_point now, bool shows_end);
  // The distant past if nobody scrapes, or all of them have seen the end. Who came once only is not
  // waited for: that may be a person who looked.
  Clock::time_point awaited_until() const;

 private:
  struct Scraper {
    Clock::time_point last;
    std::optional<Clock::duration> interval = {};
    bool saw_end = false;
  };
  std::map<std::string, Scraper> scrapers_;
};

}  // namespace causeway::run
