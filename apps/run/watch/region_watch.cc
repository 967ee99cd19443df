#include "apps/run/watch/region_watch.h"

#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "apps/run/config/prices.h"
#include "apps/run/region/region_files.h"
#include "apps/run/watch/certificate_end.h"

namespace causeway::run {
namespace {

constexpr const char* kStarting = "starting: the coordinator is still opening its files";
constexpr std::chrono::seconds kSilenceMax{10};
constexpr std::chrono::hours kLookAtCertificatesEvery{24};
constexpr int kDrawnAtOnce = 1000;  // rounds: some 20 ms
constexpr int kDrawnAtEnd = 200;    // times as many: some 4 s, of the half minute that is given

}  // namespace

// How many rounds there are is not known where K changes.
RegionWatch::RegionWatch(const Config& config, std::string region, std::filesystem::path directory,
                         const std::string& metrics, inter::Credentials credentials)
    : region_(std::move(region)),
      directory_(std::move(directory)),
      lines_(config.train.steps,
             k_policy(config).measures() ? std::nullopt : std::optional(pace(config))),
      tensorboard_(directory_, 0),
      earlier_(directory_),
      metrics_(config.name, region_, directory_, prices_of(config), credentials),
      credentials_(std::move(credentials)) {
  if (metrics.empty()) return;
  metrics_.count_earlier();  // which takes long after a long run, and is for nobody else
  server_.emplace(inter::parse_endpoint(metrics),
                  MetricsPages{.metrics = [this](const std::string& by) { return scraped(by); },
                               .not_healthy = [this] { return not_healthy(); },
                               .not_ready = [this] { return not_ready(); }});
  spdlog::info("{}: metrics at port {}", region_, server_->port());
}

// A process that did not live long still has rounds to draw, and its file takes the place of the
// one before.
RegionWatch::~RegionWatch() {
  for (int left = kDrawnAtEnd; earlier_ && first_ && !curves_refused_ && left > 0; --left) draw();
}

void RegionWatch::beat() {
  const auto now = std::chrono::steady_clock::now();
  beat_ = now;
  if (earlier_ && first_) draw();
  const bool looked = looked_at_certificates_ != kNever;
  if (looked && now < looked_at_certificates_ + kLookAtCertificatesEvery) return;
  looked_at_certificates_ = now;
  look_at_certificates();
}

void RegionWatch::look_at_certificates() const {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  const double now_s = std::chrono::duration<double>(since_1970).count();
  for (const CertificateEnd& end : certificate_ends(credentials_)) {
    const std::string warning = expiry_warning(end, region_, now_s);
    if (!warning.empty()) spdlog::warn("{}: {}", region_, warning);
  }
}

std::string RegionWatch::scraped(const std::string& scraper) {
  const bool end = metrics_.says_end();
  std::string text = metrics_.text();
  const std::lock_guard lock(mutex_);
  scrapes_.add(scraper, Scrapes::Clock::now(), end);
  return text;
}

std::chrono::steady_clock::time_point RegionWatch::last_scrape_by() const {
  const std::lock_guard lock(mutex_);
  return scrapes_.awaited_until();
}

std::string RegionWatch::not_healthy() const {
  const auto beat = beat_.load();
  if (beat == kNever) return kStarting;
  const auto silent = std::chrono::steady_clock::now() - beat;
  if (silent < kSilenceMax) return "";
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(silent).count();
  return fmt::format("the coordinator has done nothing for {} s", seconds);
}

// Until then status.json is an earlier process's.
std::string RegionWatch::not_ready() const {
  return beat_.load() == kNever ? kStarting : metrics_.not_ready();
}

void RegionWatch::add(const std::string& event) {
  const auto round = parse_round(event);
  if (!round) return;
  spdlog::info("{}: {}", region_, lines_.next(*round));
  metrics_.count(*round);
  first_ = first_.value_or(round->round);
  newer_.push_back(*round);
  draw();
}

void RegionWatch::draw() {
  try {
    tensorboard_.write();  // before more of it waits in memory
    draw_some();
    tensorboard_.write();
  } catch (const std::system_error& error) {
    if (!std::exchange(curves_refused_, true))
      spdlog::warn("{}: {}; the curves lack rounds until there is room", region_, error.what());
    return;
  }
  if (std::exchange(curves_refused_, false))
    spdlog::info("{}: the curves have all rounds again", region_);
}

// This thread leads rounds, and all that earlier processes of a long run saw would keep it for
// seconds.
void RegionWatch::draw_some() {
  for (int left = kDrawnAtOnce; earlier_ && left > 0; --left) {
    const std::optional<LoggedRound> round = earlier_->next();
    if (!round) {
      earlier_.reset();
    } else if (round->round < *first_) {
      tensorboard_.add(sample_of(*round));
    }
  }
  if (earlier_) return;
  for (; !newer_.empty(); newer_.pop_front()) tensorboard_.add(sample_of(newer_.front()));
}

}  // namespace causeway::run
