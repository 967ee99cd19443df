#include "apps/run/simulate/monitor.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

namespace causeway::run {
namespace {

constexpr double kRateWindow_s = 3;
constexpr double kSampleInterval_s = 1;

// A read error is no reason to end the run: the file is looked at again.
std::optional<RegionStatus> shown_status(const std::filesystem::path& region_directory) {
  try {
    return read_status(region_directory);
  } catch (const std::system_error&) {
    return std::nullopt;
  }
}

}  // namespace

Monitor::Monitor(const Config& config, const RunDirectory& directory)
    : config_(config), directory_(directory) {
  view_.title = config.name;
  view_.steps = config.train.steps;
  for (const RegionConfig& region : config.regions) {
    view_.regions.emplace_back();
    view_.regions.back().name = region.name;
    if (const auto status = shown_status(directory.region(region.name)))
      earlier_pids_[region.name] = status->pid;
  }
}

bool Monitor::has_worked(const std::string& region) const {
  if (worked_.contains(region)) return true;
  const auto status = shown_status(directory_.region(region));
  return status && is_of_now(region, *status) && status->reported_unix_s;
}

bool Monitor::is_of_now(const std::string& region, const RegionStatus& status) const {
  const auto earlier = earlier_pids_.find(region);
  return earlier == earlier_pids_.end() || earlier->second != status.pid;
}

std::uint64_t Monitor::version(const std::string& region) const {
  const auto known = versions_.find(region);
  return known == versions_.end() ? 0 : known->second;
}

void Monitor::begin(const std::string& phase, double elapsed_s) {
  if (view_.phase == phase) return;
  view_.phase = phase;
  view_.regions.assign(config_.regions.size(), RegionView{});
  for (RegionView& region : view_.regions) region.state = "starting";
  for (std::size_t i = 0; i < config_.regions.size(); ++i)
    view_.regions[i].name = config_.regions[i].name;
  view_.round = view_.rounds = 0;
  last_samples_.clear();
  began_elapsed_s_ = elapsed_s;
  fresh_ = true;
}

const View& Monitor::observe_training(double elapsed_s, std::uint32_t restarts) {
  begin(config_.train.timed_step_ms > 0 ? "timed steps, no training" : "training", elapsed_s);
  view_.rounds = pace(config_).rounds();
  view_.restarts = restarts;
  view_.wan_bytes = 0;
  std::vector<RegionStatus> seen;
  std::vector<std::optional<RegionStatus>> statuses;
  for (const RegionConfig& region : config_.regions)
    statuses.push_back(shown_status(directory_.region(region.name)));
  const bool over =
      std::ranges::any_of(statuses, [](const auto& status) { return status && status->finished; });
  for (std::size_t i = 0; i < config_.regions.size(); ++i) {
    const std::string& name = config_.regions[i].name;
    const std::optional<RegionStatus>& status = statuses[i];
    if (!status) continue;
    take(i, name, *status, elapsed_s);
    versions_[name] = status->version;
    if (is_of_now(name, *status) && status->reported_unix_s) worked_.insert(name);
    view_.round = std::max(view_.round, status->version);
    if (name == config_.sync.founder) follow_k(*status);
    view_.wan_bytes += status->wan_tx_bytes;
    seen.push_back(*status);
    if (over) continue;  // regions close their links: they are shown as they last were
    std::vector<LinkView>& links = view_.regions[i].links;
    links.clear();
    for (const auto& [peer, link] : status->links)
      links.push_back({peer, link.up, link.round_trip_ms, link.via});
  }
  view_.wan_bytes_per_s = wan_rate(elapsed_s);
  view_.egress = run_egress(seen);
  finish_observation(elapsed_s);
  return view_;
}

// How many rounds there will be follows from the K of now.
void Monitor::follow_k(const RegionStatus& status) {
  if (!k_policy(config_).measures() || status.k == 0) return;
  const std::uint64_t round_steps =
      std::max<std::uint64_t>(1, status.k / config_.overlap.fragments);
  const std::uint64_t left = view_.steps - std::min(view_.steps, status.progress.step());
  view_.rounds = status.version + (left + round_steps - 1) / round_steps;
  if (status.k_change == k_change_) return;
  k_change_ = status.k_change;
  note(k_change_);
}

const View& Monitor::observe_baseline(double elapsed_s, bool one_process) {
  begin("synchronous baseline", elapsed_s);
  if (one_process) {
    view_.regions.resize(1);
    view_.regions.front().name = "all regions";
  }
  for (std::size_t i = 0; i < view_.regions.size(); ++i) {
    const auto status = shown_status(directory_.baseline(config_.regions[i].name));
    if (status) take(i, i == 0 ? "baseline" : "", *status, elapsed_s);
  }
  finish_observation(elapsed_s);
  return view_;
}

// An empty `series` is shown but not kept.
void Monitor::take(std::size_t index, const std::string& series, const RegionStatus& status,
                   double elapsed_s) {
  RegionView& region = view_.regions[index];
  const diloco::Progress& progress = status.progress;
  const auto validated =
      progress.has_val_loss() ? std::optional(progress.val_loss()) : std::nullopt;
  region.step = progress.step();
  region.loss = loss_of(progress);
  region.tokens_per_s = progress.tokens_per_s();
  region.mfu = progress.mfu();
  region.val_loss = validated;
  if (!status.state().empty()) region.state = status.state();
  if (series.empty() || progress.step() == 0) return;
  Sample& last = last_samples_[series];
  const bool new_round = status.version > last.version;
  if (progress.step() <= last.step && !new_round) return;
  if (!new_round && elapsed_s < last.time_s + kSampleInterval_s) return;
  const bool again = validated == validated_[series];
  validated_[series] = validated;
  last = {.time_s = elapsed_s,
          .region = series,
          .step = progress.step(),
          .version = status.version,
          .wan_tx_bytes = status.wan_tx_bytes,
          .loss = loss_of(progress),
          .tokens_per_s = progress.tokens_per_s(),
          .val_loss = again ? std::nullopt : validated};
  new_samples_.push_back(last);
}

// On disk, and in TensorBoard's files.
void Monitor::keep_new_samples() {
  draw_new_samples();
  unwritten_.insert(unwritten_.end(), new_samples_.begin(), new_samples_.end());
  new_samples_.clear();
  if (unwritten_.empty()) return;
  files_.attempt("progress.jsonl", [this] {
    append_samples(directory_.progress_file(), unwritten_);
    unwritten_.clear();
  });
}

// TensorBoard's files begin with what earlier sessions observed.
void Monitor::draw_new_samples() {
  if (!tensorboard_ && !new_samples_.empty()) {
    tensorboard_.emplace(directory_.path(), directory_.read_spent().began_s);
    for (const Sample& sample : read_samples(directory_.progress_file())) tensorboard_->add(sample);
  }
  if (!tensorboard_) return;
  for (const Sample& sample : new_samples_) tensorboard_->add(sample);
  files_.attempt("tensorboard", [this] { tensorboard_->write(); });
}

void Monitor::finish_observation(double elapsed_s) {
  keep_new_samples();
  double steps = 0;
  for (const RegionView& region : view_.regions) steps += double(region.step);
  const double fraction = steps / (double(view_.regions.size()) * double(view_.steps));
  if (fresh_ && steps > 0) {
    began_fraction_ = fraction;
    began_elapsed_s_ = elapsed_s;
    fresh_ = false;
  }
  const double done = fraction - began_fraction_;
  view_.elapsed_s = elapsed_s;
  view_.remaining_s =
      !fresh_ && done > 0 ? (elapsed_s - began_elapsed_s_) * (1 - fraction) / done : -1;
}

double Monitor::wan_rate(double elapsed_s) {
  // A coordinator's count falls when it starts again before it has read its old one.
  if (!wan_history_.empty() && view_.wan_bytes < wan_history_.back().second) wan_history_.clear();
  wan_history_.emplace_back(elapsed_s, view_.wan_bytes);
  while (wan_history_.size() > 2 && wan_history_[1].first < elapsed_s - kRateWindow_s)
    wan_history_.pop_front();
  const auto& [then_s, then_bytes] = wan_history_.front();
  return elapsed_s > then_s ? double(view_.wan_bytes - then_bytes) / (elapsed_s - then_s) : 0;
}

}  // namespace causeway::run
