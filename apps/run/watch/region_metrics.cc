#include "apps/run/watch/region_metrics.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include "apps/run/watch/certificate_end.h"
#include "apps/run/watch/checkpoint_hook.h"
#include "apps/run/watch/earlier_rounds.h"

namespace causeway::run {
namespace {

using prometheus::MetricType;

// Families of one region, in the order in which they are added.
class Families {
 public:
  Families(std::string run, std::string region)
      : run_(std::move(run)), region_(std::move(region)) {}

  void counter(const std::string& name, const std::string& help, double value,
               const std::string& peer = {}) {
    add(name, help, MetricType::Counter, peer).counter.value = value;
  }
  void gauge(const std::string& name, const std::string& help, double value,
             const std::string& peer = {}) {
    add(name, help, MetricType::Gauge, peer).gauge.value = value;
  }
  void gauge_of_period(const std::string& name, const std::string& help, double value,
                       const std::string& period) {
    prometheus::ClientMetric& metric = add(name, help, MetricType::Gauge, {});
    metric.label.push_back({"period", period});
    metric.gauge.value = value;
  }
  void gauge_of_certificate(const std::string& name, const std::string& help, double value,
                            const std::string& certificate) {
    prometheus::ClientMetric& metric = add(name, help, MetricType::Gauge, {});
    metric.label.push_back({"certificate", certificate});
    metric.gauge.value = value;
  }
  // Of the process, whatever it works for: without labels.
  void gauge_of_process(const std::string& name, const std::string& help, double value) {
    of(name, help, MetricType::Gauge).metric.emplace_back().gauge.value = value;
  }
  std::string text() const { return prometheus::TextSerializer().Serialize(families_); }

 private:
  prometheus::ClientMetric& add(const std::string& name, const std::string& help, MetricType type,
                                const std::string& peer) {
    prometheus::MetricFamily& family = of(name, help, type);
    prometheus::ClientMetric& metric = family.metric.emplace_back();
    metric.label.push_back({"run", run_});
    metric.label.push_back({"region", region_});
    if (!peer.empty()) metric.label.push_back({"peer", peer});
    return metric;
  }

  prometheus::MetricFamily& of(const std::string& name, const std::string& help, MetricType type) {
    for (prometheus::MetricFamily& family : families_) {
      if (family.name == "causeway_" + name) return family;
    }
    return families_.emplace_back(prometheus::MetricFamily{"causeway_" + name, help, type, {}});
  }

  std::string run_, region_;
  std::vector<prometheus::MetricFamily> families_;
};

void add_training(Families& out, const RegionStatus& status) {
  const diloco::Progress& progress = status.progress;
  out.counter("steps_total",
              "Where this region is in the run's schedule, in inner steps, "
              "with those that it did not take.",
              double(progress.step()));
  out.gauge("run_steps", "Inner steps of the whole run, nominal.", double(status.steps));
  out.counter("tokens_total", "Tokens that this region trained on.", double(progress.tokens()));
  if (progress.has_loss())
    out.gauge("loss", "Training loss of the last inner step, nats per token.", progress.loss());
  if (progress.has_loss() || status.loss_not_finite)
    out.gauge("loss_not_finite", "1 if the loss that the worker reported last is NaN or infinite.",
              status.loss_not_finite ? 1 : 0);
  if (progress.has_val_loss())
    out.gauge("validation_loss", "Loss of the newest validation, nats per token.",
              progress.val_loss());
  out.gauge("tokens_per_second", "Rate of the newest inner steps.", progress.tokens_per_s());
  out.counter("compute_seconds_total", "Time in inner steps.", progress.compute_s());
  out.counter("wait_seconds_total", "Time in everything but inner steps since training began.",
              progress.wait_s());
  out.counter("in_region_seconds_total", "Part of compute: sums over the region's ranks.",
              progress.in_region_s());
  out.counter("outer_seconds_total", "Part of wait: encoding and applying.", progress.outer_s());
  if (progress.mfu() != 0)
    out.gauge("mfu_ratio", "Share of the peak arithmetic of the region's devices.", progress.mfu());
  out.gauge("worker_memory_peak_bytes", "Peak memory of rank 0's process.",
            double(progress.memory_peak_bytes()));
  if (progress.device_memory_peak_bytes() != 0)
    out.gauge("device_memory_peak_bytes", "Peak memory of rank 0's GPU.",
              double(progress.device_memory_peak_bytes()));
}

void add_agreement(Families& out, const RegionStatus& status) {
  out.gauge("version", "Rounds that the worker has applied.", double(status.version));
  out.gauge("open_round", "Records in the ledger.", double(status.round));
  out.gauge("k_steps", "K of the open round.", double(status.k));
  out.gauge("term", "Raft's term: it grows by an election.", double(status.term));
  out.gauge("leader_known", "1 if the run has a leader.", status.leader.empty() ? 0 : 1);
  out.gauge("leads", "1 if this region leads.",
            !status.leader.empty() && status.leader == status.region ? 1 : 0);
  out.gauge("abstains", "1 if the region takes no part in the run while its storage fails.",
            status.abstains ? 1 : 0);
  out.gauge("waiting", "1 if the region waits for something.", status.waiting.empty() ? 0 : 1);
  out.gauge("finished", "1 if the run is over here.", status.finished ? 1 : 0);
  // What stays in Prometheus when the process is gone. Another run may use its address later.
  out.gauge_of_process("ended_well", "1 if the process ends because the run is over.",
                       status.finished ? 1 : 0);
  out.gauge("rounds_behind", "Rounds in the ledger that the worker has not applied.",
            std::max(0.0, double(status.round) - double(status.version)));
  out.gauge("falls_behind", "1 if the region is so far behind that its work no longer counts.",
            status.falls_behind ? 1 : 0);
  out.gauge("workers", "Workers that the region should have.", status.workers);
  out.gauge("workers_missing", "Workers that should be attached and are not.",
            double(status.missing_ranks.size()));
  out.gauge("spool_bytes", "Payloads and snapshots on disk.", double(status.spool_bytes));
  out.gauge("spool_capacity_bytes", "What sync.spool_gib allows.",
            double(status.spool_capacity_bytes));
}

// Also of regions that are no members any more: no sum over peers may fall.
void add_link_totals(Families& out, const RegionStatus& status, const Prices& prices) {
  std::map<std::string, LinkTotals> all = status.removed_links;
  for (const auto& [peer, link] : status.links) all[peer] = diloco::link_totals(link);
  for (const auto& [peer, link] : all) {
    out.counter("link_connects_total", "How often the link came up.", double(link.connects), peer);
    out.counter("link_sent_bytes_total", "Bytes sent to the peer, at the sockets, TLS included.",
                double(link.tx_bytes), peer);
    if (prices.given)
      out.counter("egress_cost_total",
                  "Cost of what was sent to the peer, in the currency of links.prices.",
                  prices.of(status.region, peer, double(link.tx_bytes)), peer);
    out.counter("link_received_bytes_total",
                "Bytes received from the peer, at the sockets, TLS included.",
                double(link.rx_bytes), peer);
  }
}

void add_links(Families& out, const RegionStatus& status) {
  for (const auto& [peer, link] : status.links) {
    out.gauge("link_up", "1 if the link is up.", link.up ? 1 : 0, peer);
    out.gauge("link_detour", "1 if messages reach the peer by way of a third region.",
              link.via.empty() ? 0 : 1, peer);
    if (link.up && link.round_trip_ms > 0)
      out.gauge("link_round_trip_seconds", "Round trip.", 1e-3 * link.round_trip_ms, peer);
    out.gauge("link_rate_bytes_per_second",
              "Rate of what is sent to the peer, as transfers showed it.",
              1e6 / 8 * link.rate_mbit_s, peer);
    out.gauge("link_retransmitted_ratio", "Share of segments sent again.", link.loss, peer);
  }
}

// Every region says the same of the run.
void add_egress(Families& out, const RegionStatus& status) {
  if (!status.egress) return;
  out.counter("run_egress_cost_total", "Cost of what all regions sent, as far as this one heard.",
              run_egress({status})->cost);
  if (!status.egress->limits.empty())
    out.gauge("budget_pauses", "1 if the open round lasts until there is new money.",
              status.egress->pauses ? 1 : 0);
  for (const EgressLimit& limit : status.egress->limits) {
    out.gauge_of_period("budget_limit", "Most that egress may cost in the period, by the budget.",
                        limit.limit, limit.period);
    out.gauge_of_period("budget_spent", "What egress of all regions has cost in the period.",
                        limit.spent, limit.period);
    out.gauge_of_period("budget_forecast",
                        "What egress of all regions will have cost at the end of the period.",
                        limit.forecast, limit.period);
  }
}

void add_checkpoint_hook(Families& out, const std::filesystem::path& directory) {
  const auto hook = read_checkpoint_hook(directory);
  if (!hook) return;
  out.gauge("checkpoint_after_version", "Newest snapshot that checkpoint.after succeeded for.",
            double(hook->version));
  out.counter("checkpoint_after_failures_total", "How often checkpoint.after failed.",
              double(hook->failures));
}

void add_certificate_ends(Families& out, const inter::Credentials& credentials) {
  for (const CertificateEnd& end : certificate_ends(credentials))
    out.gauge_of_certificate("certificate_expiry_timestamp_seconds",
                             "When the region's own certificate, or its authority's, runs out.",
                             end.at_unix_s, end.certificate);
}

// By the date, which a host may have wrong, as an earlier process knew no other clock.
std::chrono::steady_clock::duration time_since(double unix_s) {
  constexpr double kMaxS = 30 * 86'400.0;
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  const std::chrono::duration<double> since{std::clamp(now.count() - unix_s, 0.0, kMaxS)};
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(since);
}

}  // namespace

RegionMetrics::RegionMetrics(std::string run, std::string region, std::filesystem::path directory,
                             Prices prices, inter::Credentials credentials)
    : run_(std::move(run)),
      region_(std::move(region)),
      directory_(std::move(directory)),
      prices_(std::move(prices)),
      credentials_(std::move(credentials)) {
  rounds_.since = Clock::now();
  if (auto status = read_status(directory_)) keep_totals(*status);
}

void RegionMetrics::count_earlier() {
  EarlierRounds earlier(directory_);
  while (const auto round = earlier.next()) count(*round);
  const std::lock_guard lock(mutex_);
  if (rounds_.applied > 0) rounds_.since -= time_since(rounds_.applied_at_s);
}

void RegionMetrics::count(const LoggedRound& round, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  ++rounds_.applied;
  rounds_.without_own += round.listed ? 0 : 1;
  rounds_.late += round.late;
  rounds_.applied_at_s = round.time_unix_s;
  rounds_.since = now;
}

// A worker that was lost does some steps again. A counter that falls is taken for one that began
// anew at 0: all steps of the run would seem to be done at once.
void RegionMetrics::keep_totals(RegionStatus& status) const {
  const std::lock_guard lock(mutex_);
  if (totals_.run_id != status.run_id) totals_ = {.run_id = status.run_id};
  totals_.steps = std::max(totals_.steps, status.progress.step());
  totals_.tokens = std::max(totals_.tokens, status.progress.tokens());
  status.progress.set_step(totals_.steps);
  status.progress.set_tokens(totals_.tokens);
}

std::string RegionMetrics::text(Clock::time_point now) const {
  Families out(run_, region_);
  double since_round_s = 0;
  {
    const std::lock_guard lock(mutex_);
    out.counter("rounds_applied_total", "Rounds that the worker applied.", double(rounds_.applied));
    out.counter("rounds_without_own_total",
                "Rounds that the worker applied, without a contribution of this region.",
                double(rounds_.without_own));
    out.counter("late_contributions_total",
                "Late contributions of any region that the applied rounds list.",
                double(rounds_.late));
    since_round_s = std::max(0.0, std::chrono::duration<double>(now - rounds_.since).count());
    if (rounds_.applied > 0)
      out.gauge("last_round_timestamp_seconds", "When the last round was applied.",
                rounds_.applied_at_s);
  }
  if (auto status = read_status(directory_)) {
    keep_totals(*status);
    if (status->workers > 0)  // a witness applies none
      out.gauge("seconds_since_round",
                "Time since the last round was applied, or before the first since this process "
                "began. A change of the host's date does not move it.",
                since_round_s);
    add_training(out, *status);
    add_agreement(out, *status);
    add_links(out, *status);
    add_link_totals(out, *status, prices_);
    add_egress(out, *status);
  }
  add_checkpoint_hook(out, directory_);
  add_certificate_ends(out, credentials_);
  return out.text();
}

bool RegionMetrics::says_end() const {
  const auto status = read_status(directory_);
  return status && status->finished;
}

std::string RegionMetrics::not_ready() const {
  const auto status = read_status(directory_);
  if (!status) return "the coordinator has not begun yet";
  if (status->finished) return "";
  if (status->abstains) return status->waiting;
  if (status->leader.empty()) return "no leader is known";
  if (status->lacks_workers()) return "no worker is attached";
  if (status->workers > 0 && !status->reported_unix_s) return "no worker has begun to work yet";
  if (status->falls_behind)
    return fmt::format("it falls behind: it lacks {} rounds", status->round - status->version);
  return "";
}

}  // namespace causeway::run
