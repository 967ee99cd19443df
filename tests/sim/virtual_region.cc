#include "tests/sim/virtual_region.h"

#include <algorithm>
#include <utility>

#include "wan-sim/base/chance.h"

namespace causeway::sim {
namespace {

constexpr std::uint64_t kSamples = 10;  // of a round
constexpr Time kApplyTime = milliseconds{200};

inter::BlobId blob_named(const std::string& name, std::uint64_t size_bytes) {
  return {.hash = sha256(std::as_bytes(std::span(name))), .size_bytes = size_bytes};
}

Digest next_state(const Digest& state, const CommitRecord& record) {
  const std::string content = to_hex(state) + serialize(record);
  return sha256(std::as_bytes(std::span(content)));
}

diloco::Time in_microseconds(Time time) {
  return std::chrono::duration_cast<diloco::Time>(time);
}

}  // namespace

void VirtualRun::Region::start() {
  if (outcome_ || alive()) return;
  const auto& scenario = run_.options_.scenario;
  ProtocolOptions options;
  options.self = name_;
  options.incarnation = name_;  // disks are never lost here
  options.pace = {.steps = 100 * run_.options_.rounds, .k = 100};
  options.staleness_max = run_.options_.staleness_max;
  options.grace_min = seconds{2};
  options.grace_max = seconds{60};
  options.gathers_from = run_.options_.gathers_from;
  options.seed = wan_sim::mix(scenario.seed, wan_sim::key_of(name_));
  if (disk_.raft.log.empty() && name_ == scenario.regions.front()) found();
  protocol_ = std::make_unique<RoundProtocol>(options, disk_);
  site_ = run_.internet_.start(name_, disk_.run_id, spool_, *this);
  deliver(Tick{});
  attach_worker();
}

// The first region founds the run.
void VirtualRun::Region::found() {
  Membership membership;
  for (const std::string& region : run_.options_.scenario.regions) {
    membership = with(membership, {.region = region, .incarnation = region == name_ ? name_ : ""});
  }
  disk_.run_id = kRunId;
  disk_.raft = {.term = 1, .vote = {}, .log = {{.term = 1, .body = membership}}, .committed = 1};
}

void VirtualRun::Region::leave() {
  protocol_.reset();
  tick_at_.reset();
  ++life_;
  run_.wan_.at(run_.wan_.now(), [site = std::shared_ptr<wan_sim::Internet::Site>(
                                     std::move(site_))]() mutable { site.reset(); });
}

void VirtualRun::Region::kill() {
  if (!alive()) return;
  leave();
  holds_ = checkpoint_;
  has_lineage_ = checkpoint_has_lineage_;
}

void VirtualRun::Region::later(Time delay, std::function<void()> event) {
  run_.wan_.after(delay, [this, life = life_, event = std::move(event)] {
    if (life == life_) event();
  });
}

void VirtualRun::Region::deliver(const Event& event) {
  if (!protocol_) return;
  const std::uint64_t life = life_;
  for (const Action& action : protocol_->handle(event, in_microseconds(run_.wan_.now()))) {
    if (life_ != life) return;
    std::visit(*this, action);
  }
  if (life_ == life) schedule_tick();
}

void VirtualRun::Region::schedule_tick() {
  const auto next = protocol_->next_deadline();
  if (!next || (tick_at_ && *tick_at_ <= *next)) return;
  tick_at_ = std::max<Time>(*next, run_.wan_.now() + milliseconds{1});
  later(*tick_at_ - run_.wan_.now(), [this, at = *tick_at_] {
    if (tick_at_ != at) return;
    tick_at_.reset();
    deliver(Tick{});
  });
}

void VirtualRun::Region::on_peer_up(const std::string& peer, const std::string&) {
  const bool peer_knows = !run_.regions_.at(peer)->disk_.run_id.empty();
  if (alive() && disk_.run_id.empty() && peer_knows) {
    disk_.run_id = kRunId;
    deliver(RunIdLearned{kRunId});
  }
  deliver(PeerUp{peer, peer});
}

void VirtualRun::Region::poll() {
  if (!protocol_) return;
  for (const inter::BlobId& blob : protocol_->wanted()) {
    const std::uint64_t bytes = spool_.received_bytes(blob);
    if (bytes > 0 && protocol_) deliver(BlobProgress{blob, bytes});
  }
}

void VirtualRun::Region::operator()(const SaveRaft& action) {
  RaftState& raft = disk_.raft;
  raft.term = action.term;
  raft.vote = action.vote;
  raft.log.resize(action.first_index - 1);
  raft.log.insert(raft.log.end(), action.entries.begin(), action.entries.end());
}

void VirtualRun::Region::operator()(const AppendLedger& action) {
  disk_.raft.committed += action.entries.size();
  for (const LogEntry& entry : action.entries) {
    if (const auto* record = std::get_if<CommitRecord>(&entry.body)) run_.committed(name_, *record);
  }
}

void VirtualRun::Region::attach_worker() {
  idle_since_ = run_.wan_.now();
  later(milliseconds{10}, [this] {
    deliver(WorkerAttached{holds_, has_lineage_, has_lineage_ ? kRunId : ""});
  });
}

Time VirtualRun::Region::compute_time(Round round) const {
  const double u = wan_sim::uniform(
      wan_sim::mix(wan_sim::mix(run_.options_.scenario.seed, wan_sim::key_of(name_)), round));
  const double factor = 1 + run_.options_.compute_spread * (2 * u - 1);
  return Time(static_cast<Time::rep>(static_cast<double>(run_.options_.compute.count()) * factor));
}

void VirtualRun::Region::operator()(const OrderTrain& order) {
  waited_ += run_.wan_.now() - idle_since_;
  extra_ = 0;
  extra_begin_ = order.data_cursor + kSamples;
  later(compute_time(order.round),
        [this, order] { contribute(order.round, 0, order.data_cursor, kSamples); });
}

void VirtualRun::Region::contribute(Round round, std::uint32_t part, std::uint64_t begin,
                                    std::uint64_t samples) {
  idle_since_ = run_.wan_.now();
  const inter::BlobId payload = blob_named(name_ + "/" + std::to_string(round) + "." +
                                               std::to_string(part) + "/" + std::to_string(life_),
                                           run_.options_.payload_bytes);
  keep(payload);
  deliver(WorkerContributed{{.run_id = kRunId,
                             .region = name_,
                             .round = round,
                             .part = part,
                             .tokens = 100 * samples,
                             .data_begin = begin,
                             .data_cursor = begin + samples,
                             .state = holds_.state,
                             .delta_norm = 1,
                             .error_norm = 0.1,
                             .payload = payload}});
  later(milliseconds{1}, [this] { deliver(WorkerReady{}); });
}

void VirtualRun::Region::operator()(const OrderContinue& order) {
  continuing_ = true;
  extra_ += kSamples;
  later(compute_time(order.round), [this] {
    if (std::exchange(continuing_, false)) deliver(WorkerReady{});
  });
}

void VirtualRun::Region::operator()(const OrderCallBack&) {
  if (!std::exchange(continuing_, false)) return;
  later(milliseconds{1}, [this] { deliver(WorkerReady{}); });
}

void VirtualRun::Region::operator()(const OrderCollect& order) {
  later(milliseconds{1}, [this, order] {
    contribute(order.round, 1, extra_begin_, extra_);
    extra_begin_ += std::exchange(extra_, 0);
  });
}

void VirtualRun::Region::operator()(const OrderApply& order) {
  const Applied next{.version = order.record.round + 1,
                     .state = next_state(holds_.state, order.record)};
  later(kApplyTime, [this, next] { applied(next); });
}

void VirtualRun::Region::operator()(const OrderRestore& order) {
  const Applied next{.version = order.snapshot.version, .state = order.snapshot.state};
  later(kApplyTime, [this, next] { applied(next); });
}

void VirtualRun::Region::applied(const Applied& next) {
  holds_ = next;
  deliver(WorkerApplied{next});
  if (next.version % run_.options_.checkpoint_rounds == 0) {
    checkpoint_ = next;
    checkpoint_has_lineage_ = true;
    const auto blob = blob_named("snapshot " + to_hex(next.state), run_.options_.snapshot_bytes);
    keep(blob);
    deliver(WorkerOffered{{next.version, next.state, blob}});
  }
  later(milliseconds{1}, [this] { deliver(WorkerReady{}); });
}

void VirtualRun::Region::operator()(const EndRun& action) {
  outcome_ = action;
  run_.wan_.log("end " + name_ + " " + std::to_string(action.exit_code));
  leave();
}

std::string VirtualRun::Region::describe() const {
  std::string text = name_ + ": log " + std::to_string(disk_.raft.committed) + ", worker at " +
                     std::to_string(holds_.version);
  if (outcome_)
    return text + ", exit " + std::to_string(outcome_->exit_code) + " " + outcome_->message;
  if (!protocol_) return text + ", down";
  return text + ", waits for " + protocol_->waiting_for(in_microseconds(run_.wan_.now()));
}

}  // namespace causeway::sim
