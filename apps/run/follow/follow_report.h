// How a follower stands, for the threads that show it.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include <nlohmann/json.hpp>

#include "apps/run/watch/metrics_server.h"

namespace causeway::run {

struct FollowFigures {
  std::uint64_t rounds = 0;   // that the run has decided on, as far as is known
  std::uint64_t version = 0;  // that is computed
  std::string connected;      // the region that it asks; empty: none answers
  std::string trouble;        // why it does not get on; empty: it does
  std::uint64_t received_bytes = 0;
  nlohmann::ordered_json published;  // version.json of `current`; null: there is none
  bool over = false;                 // the run, and the last version is published
};

class FollowReport {
 public:
  template <typename Change>
  void change(const Change& change) {
    const std::lock_guard lock(mutex_);
    change(figures_);
  }
  void publish(nlohmann::ordered_json version) {
    change([&](FollowFigures& figures) { figures.published = std::move(version); });
    if (news_) news_();
  }
  FollowFigures look() const {
    const std::lock_guard lock(mutex_);
    return figures_;
  }
  // `news`: called after each change of what is published. Before anything is.
  void set_news(std::function<void()> news) { news_ = std::move(news); }

 private:
  mutable std::mutex mutex_;
  FollowFigures figures_;
  std::function<void()> news_;
};

// What it shows over HTTP: its figures, whether it gets on, and which version is published.
// `report` outlives what asks for the pages.
MetricsPages follow_pages(const FollowReport& report);

}  // namespace causeway::run
