#include "apps/run/follow/follow_loop.h"

#include <algorithm>
#include <limits>
#include <sstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <asio/steady_timer.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>

#include "apps/run/follow/follower.h"
#include "apps/run/follow/weights_follower.h"
#include "diloco/coordinator/greeting.h"
#include "diloco/files/error.h"
#include "inter/base/error.h"
#include "inter/base/text.h"

namespace causeway::run {
namespace {

constexpr std::chrono::seconds kLookForRoom{3};  // on a disk that is full or fails

// A follower reads, whoever takes part.
std::string without_names(const std::string& settings) {
  std::istringstream lines(settings);
  std::string kept;
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("regions.name = ")) kept += line + "\n";
  return kept;
}

}  // namespace

bool OtherRegions::add(const FollowOptions& options, const std::string& region,
                       std::set<std::string>& regions) {
  if (std::ranges::find(options.trusted, region) != options.trusted.end()) regions.insert(region);
  return regions.size() >= options.signatures;
}

void OtherRegions::check_settings(const FollowOptions& options, const Config& config,
                                  const std::string& region, const std::string& settings) {
  const std::string differences = diloco::config_differences(
      {without_names(shared_settings(config)), "here"}, {without_names(settings), "in " + region});
  if (differences.empty()) {
    of_other_settings_.erase(region);
    return;
  }
  const std::string what = "the configuration here is not the run's: " + differences;
  if (add(options, region, of_other_settings_)) throw ConfigError(what);
  throw inter::LinkError(inter::Errc::bad_frame, what);
}

void OtherRegions::check_run(const FollowOptions& options, const std::string& ours,
                             const std::string& region, const std::string& theirs) {
  if (ours.empty() || ours == theirs) {
    of_another_run_.erase(region);
    return;
  }
  const std::string what = options.directory.string() + " follows run " + ours + ", but " + region +
                           " is in run " + inter::printable_line(theirs) +
                           ": give each run that you follow a --directory of its own";
  if (add(options, region, of_another_run_))
    throw std::system_error(make_error_code(diloco::Errc::lineage), what);
  throw inter::LinkError(inter::Errc::bad_frame, what);
}

namespace {

asio::awaitable<void> pause_following(std::chrono::milliseconds length) {
  asio::steady_timer timer(co_await asio::this_coro::executor, length);
  co_await timer.async_wait(asio::use_awaitable);
}

}  // namespace

FollowLoop::FollowLoop(asio::any_io_executor executor, const Config& config, FollowOptions options,
                       FollowReport& report, std::chrono::milliseconds pause)
    : config_(config),
      options_(std::move(options)),
      report_(report),
      regions_(std::move(executor), options_.self, options_.credentials, options_.addresses),
      spool_(options_.directory / "spool", std::numeric_limits<std::uint64_t>::max()),
      versions_(options_.directory, options_.kept),
      pause_(pause) {
  if (auto published = versions_.current(); !published.is_null())
    report_.publish(std::move(published));
}

asio::awaitable<void> FollowLoop::run() {
  restore();
  if (is_over_already()) co_return;
  while (!over_) {
    show();
    Link& link = *co_await regions_.nearest();
    const std::string region = link.region();
    bool got_on = false;
    std::string trouble;
    try {
      got_on = co_await step(link);
    } catch (const inter::LinkError& error) {
      trouble = error.reason();
      regions_.drop(region, trouble);
      lose_link();
    }
    regions_.drop_liars();
    if (trouble.empty()) trouble = waits_for();
    report_.change([&](FollowFigures& figures) { figures.trouble = trouble; });
    if (!got_on && !over_) co_await pause_following(pause_);
  }
  show();
}

bool FollowLoop::is_over_already() {
  const nlohmann::ordered_json published = report_.look().published;
  if (published.is_null() || !published.value("final", false) ||
      published.value("dtype", "") != options_.dtype())
    return false;
  spdlog::info(
      "run {} is over, and its last version is there. To follow another run, name another "
      "--directory",
      published.value("run", ""));
  report_.change([](FollowFigures& figures) { figures.over = true; });
  return true;
}

void FollowLoop::show() {
  report_.change([&](FollowFigures& figures) {
    figures.rounds = rounds();
    figures.version = version_here();
    figures.connected = regions_.connected();
    figures.received_bytes = regions_.received_bytes();
    figures.over = over_;
  });
}

namespace {

template <typename Kind>
asio::awaitable<void> follow_once(asio::any_io_executor executor, const Config& config,
                                  const FollowOptions& options, FollowReport& report, bool& begun) {
  Kind follower(executor, config, options, report);
  begun = true;
  co_await follower.run();
}

}  // namespace

// What it knew may be ahead of what is on disk when that is full, so it begins anew.
asio::awaitable<void> follow(asio::any_io_executor executor, const Config& config,
                             const FollowOptions& options, FollowReport& report) {
  bool begun = false;
  for (;;) {
    std::string trouble;
    try {
      if (options.weights_alone) {
        co_await follow_once<WeightsFollower>(executor, config, options, report, begun);
      } else {
        co_await follow_once<Follower>(executor, config, options, report, begun);
      }
      co_return;
    } catch (const std::system_error& error) {
      if (!begun || !diloco::is_storage_failure(error)) throw;
      // Bytes that changed where they lie are no lack of room.
      trouble =
          error.code() == std::errc::io_error
              ? fmt::format("cannot go on: {}; it tries again", error.what())
              : fmt::format("the disk cannot be written to: {}; following goes on once it can",
                            error.what());
    }
    spdlog::error("{}", trouble);
    report.change([&](FollowFigures& figures) { figures.trouble = trouble; });
    co_await pause_following(kLookForRoom);
  }
}

}  // namespace causeway::run
