#include "diloco/coordinator/status_view.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "inter/base/async.h"
#include "inter/tls/pki.h"

namespace causeway::diloco {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kLookAtCertificatesEvery{60};

}  // namespace

std::string late_answers(const std::map<std::string, inter::LinkStats>& links,
                         std::chrono::microseconds election) {
  using std::chrono::microseconds;
  const auto takes = [](const auto& link) {  // of one that is gone: what it took is of before
    return link.second.up ? link.second.round_trip : microseconds(0);
  };
  const auto slowest = std::ranges::max_element(links, {}, takes);
  if (slowest == links.end() || election >= 2 * takes(*slowest)) return {};
  return fmt::format(
      ". Answers of {} take {}, and sync.election_timeout_s is {}: find what fills that link. If "
      "it "
      "always takes so long, set sync.election_timeout_s to ten round trips in all regions",
      slowest->first, inter::seconds_text(takes(*slowest)), inter::seconds_text(election));
}

StatusView::StatusView(CoordinatorContext context, const PeerLinks& links, const WorkerSide& worker)
    : context_(std::move(context)),
      links_(links),
      worker_(worker),
      own_egress_(context_.directory.files().earlier_egress_cost()),
      earlier_egress_said_(context_.directory.files().earlier_egress_said()) {}

void StatusView::look_at_certificates(steady_clock::time_point now) {
  if (now < look_at_certificates_at_) return;
  look_at_certificates_at_ = now + kLookAtCertificatesEvery;
  if (const auto until = inter::valid_until_unix_s(context_.options.mesh.credentials))
    certificates_until_unix_s_ = until;
}

void StatusView::note_wait(const std::string& what) {
  wait_log_.note(context_.options.region, what, applied_version(),
                 context_.protocol().membership());
}

std::string StatusView::waiting_for() const {
  if (abstention_) return *abstention_;
  if (context_.ending.succeeded()) return goodbye_;
  const std::string for_room = worker_.intake().waiting_for();
  if (!for_room.empty()) return for_room;
  if (!links_.namesake().empty() && links_.up().empty())
    return "the other process with this region's certificate to end (" + links_.namesake() + ")";
  const std::string what = context_.driver.waiting_for();
  if (what.empty()) return what;
  const bool leaderless = !context_.protocol().raft().leader();
  const std::string late =
      leaderless ? late_answers(links_.stats(), context_.options.protocol.election) : "";
  return what + context_.directory.lacking_room(context_.protocol().wanted()) + late;
}

Round StatusView::applied_version() const {
  const RoundProtocol& protocol = context_.protocol();
  return protocol.applied() ? protocol.applied()->version : protocol.version();
}

RegionStatus StatusView::status() const {
  const RoundProtocol& protocol = context_.protocol();
  RegionStatus status;
  status.region = context_.options.region;
  status.pid = static_cast<std::uint64_t>(::getpid());
  status.run_id = protocol.run_id();
  status.settings_sha256 = settings_digest(context_.options.shared_config);
  status.version = applied_version();
  status.round = protocol.version();
  status.listening_port = links_.listening_port();
  status.waiting = waiting_for();
  status.waited_for = wait_log_.longest(applied_version());
  status.share = protocol.share().value_or(DataShare{});
  if (protocol.data()) status.data = data_status(*protocol.data());
  status.steps = context_.options.protocol.pace.steps;
  status.k = protocol.k();
  status.k_change = protocol.k_change();
  status.egress = egress();
  status.spool_bytes = context_.directory.spool().stored_bytes();
  status.spool_capacity_bytes = context_.directory.spool().capacity_bytes();
  status.rounds_kept = protocol.rounds_kept();
  status.falls_behind = applied_version() + protocol.rounds_kept() < protocol.version();
  status.certificates_until_unix_s = certificates_until_unix_s_;
  status.last_error = last_error_;
  status.finished = context_.ending.succeeded() && goodbye_.empty();
  add_agreement(status);
  add_worker(status);
  add_links(status);
  return status;
}

// What is out of the run hears nobody: what it knew of the leader then is not true for long.
void StatusView::add_agreement(RegionStatus& status) const {
  const Raft& raft = context_.protocol().raft();
  status.abstains = abstention_.has_value();
  if (!status.abstains) status.leader = raft.leader().value_or("");
  status.term = raft.term();
}

// A witness has none, and who is finished needs none.
void StatusView::add_worker(RegionStatus& status) const {
  const bool witness = context_.directory.protocol_options().witness;
  if (!witness) status.workers = context_.options.workers;
  if (!witness && !status.finished) status.missing_ranks = worker_.missing();
  status.degraded = worker_.is_attached() && !status.missing_ranks.empty();
  status.progress = worker_.progress();
  status.loss_not_finite = status.progress.has_loss() && !std::isfinite(status.progress.loss());
  status.reported_unix_s = worker_.reported_unix_s();
  if (context_.ending.going_on()) status.worker_silent_s = worker_.silent_s();
  const std::string silence = context_.ending.going_on() ? worker_.silence() : "";
  if (silence.empty()) return;
  status.progress.set_tokens_per_s(0);
  if (status.waiting.empty()) status.waiting = silence;
}

void StatusView::add_links(RegionStatus& status) const {
  for (const auto& [peer, link] : links_.stats()) {
    if (link.removed) {
      status.removed_links[peer] = link_totals(link);
    } else {
      status.links[peer] = link_status(link);
    }
  }
}

std::optional<EgressStatus> StatusView::egress() const {
  if (!context_.options.egress_prices.given) return std::nullopt;
  double now = 0;
  for (const auto& [peer, link] : links_.stats())
    now += context_.options.egress_prices.of(peer, link.tx_bytes);
  const RoundProtocol& protocol = context_.protocol();
  const EgressMeter& meter = protocol.egress();
  EgressStatus egress{.cost = own_egress_.total(now, protocol.agreed_egress_cost()),
                      .run_cost = meter.spent(),
                      .said = egress_said(),
                      .run_forecast = meter.at_end(protocol.k()),
                      .pauses = protocol.pauses_for_money()};
  for (const EgressForecast& forecast : meter.forecasts(protocol.k()))
    egress.limits.push_back(egress_limit(forecast));
  return egress;
}

// Of a region that is gone others still know it.
std::map<std::string, double> StatusView::egress_said() const {
  std::map<std::string, double> said = links_.costs();
  const auto note = [&said](const std::string& region, double cost) {
    said[region] = std::max(said[region], cost);
  };
  for (const EgressCost& region : context_.protocol().agreed_egress())
    note(region.region, region.cost);
  for (const auto& [region, cost] : earlier_egress_said_) note(region, cost);
  return said;
}

}  // namespace causeway::diloco
