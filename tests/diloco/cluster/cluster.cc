#include "tests/diloco/cluster/cluster_parts.h"

#include <algorithm>
#include <utility>

#include "diloco/log/withdraw.h"

namespace causeway::diloco::testing {

using std::chrono::milliseconds;
using std::chrono::seconds;

Cluster::Cluster(ClusterOptions options)
    : options_(std::move(options)), random_(options_.seed), history_(options_.contributions_min) {
  for (const std::string& region : options_.regions) {
    Node& node = nodes_[region];
    node.incarnation = std::to_string(++incarnations_);
    node.worker.holds = node.worker.checkpoint = {.version = 0, .state = initial_state()};
  }
  if (options_.real_links) begin_real_links();
  found(nodes_.at(options_.regions.front()));
  for (const std::string& region : options_.regions) start(region);
  if (!options_.liar.empty()) lie();
}

Cluster::~Cluster() = default;

void Cluster::found(Node& node) {
  node.disk.run_id = kRunId;
  Membership membership;
  for (const std::string& region : options_.regions) {
    membership = with(membership, {.region = region, .witness = region == options_.witness});
    if (options_.liar.empty()) continue;
    Member voter = *membership.find(region);
    voter.incarnation = nodes_.at(region).incarnation;
    membership = with(membership, voter);
  }
  Member founder = *membership.find(options_.regions.front());
  founder.incarnation = node.incarnation;
  membership = with(membership, founder);
  if (options_.forked) {
    if (real_) real_->start(founder.region);
    const inter::BlobId blob = keep(founder.region, "of another run", kSnapshotBytes);
    snapshots_[blob] = forked_state();
    membership.origin = {.run_id = "run-0", .version = 7, .state = forked_state(), .blob = blob};
    node.disk.snapshot = {.version = 0, .state = forked_state(), .blob = blob};
  }
  node.disk.raft.log = {{.term = 1, .body = membership}};
  node.disk.raft.term = node.disk.raft.committed = 1;
  history_.committed(founder.region, 1, node.disk.raft.log.front(), {});
}

// ---- Time ----

Time Cluster::random_time(Time min, Time max) {
  return Time{std::uniform_int_distribution<Time::rep>(min.count(), max.count())(random_)};
}

void Cluster::at(Time time, std::function<void()> action) {
  queue_.emplace(std::pair(std::max(time, now_), sequence_++), std::move(action));
}

bool Cluster::step(Time limit) {
  if (queue_.empty() || queue_.begin()->first.first > limit) return false;
  auto entry = queue_.extract(queue_.begin());
  now_ = entry.key().first;
  entry.mapped()();
  return true;
}

void Cluster::run_until(Time time) {
  while (step(time)) {
  }
  now_ = time;
}

bool Cluster::finish(Time limit) {
  // A witness that was out of reach at the end does not hear that there is nobody left.
  const auto all_ended = [this] {
    return std::ranges::all_of(nodes_, [this](const auto& node) {
      return node.first == options_.witness || !honest(node.first) ||
             node.second.outcome.has_value();
    });
  };
  while (!all_ended() && step(limit)) {
  }
  return std::ranges::all_of(nodes_, [this](const auto& node) {
    const int code = membership().find(node.first) == nullptr ? 3 : 0;  // 3: removed
    const bool ended = node.second.outcome && node.second.outcome->exit_code == code;
    return node.first == options_.witness || !honest(node.first) || ended;
  });
}

// ---- Processes ----

bool Cluster::alive(const std::string& region) const {
  return nodes_.at(region).protocol != nullptr || !honest(region);
}

void Cluster::die(const std::string& region) {
  Node& node = nodes_.at(region);
  node.protocol.reset();
  node.tick_at.reset();
  node.held.clear();
  // Of what it sent since its newest contribution nothing is written down.
  node.egress = OwnEgress();
  node.sent_before = node.sent_bytes;
  ++node.life;
  ++node.worker.session;
  drop_links(region);
  if (real_) real_->kill(region);
}

void Cluster::kill_coordinator(const std::string& region) {
  if (alive(region)) die(region);
}

void Cluster::kill_worker(const std::string& region) {
  Node& node = nodes_.at(region);
  if (node.worker.finished) return;  // it has saved its last state, and ended
  node.worker.running = false;
  ++node.worker.life;
  node.worker.ahead = node.worker.steps = 0;
  node.worker.made.reset();
  node.worker.offered.reset();
  ++node.worker.session;
  node.worker.holds = node.worker.checkpoint;
  node.worker.has_lineage = node.worker.checkpoint_has_lineage;
  if (alive(region)) deliver(region, WorkerLost{});
}

void Cluster::kill_region(const std::string& region) {
  kill_coordinator(region);
  kill_worker(region);
}

void Cluster::wipe(const std::string& region) {
  Node& node = nodes_.at(region);
  node.worker.checkpoint = {.version = 0, .state = initial_state()};
  node.worker.checkpoint_has_lineage = false;
  node.worker.finished = false;
  kill_region(region);
  lost_logs_.push_back(node.disk.raft);
  node.disk = {};
  node.incarnation = std::to_string(++incarnations_);
  node.partial.clear();
  node.damaged.clear();
  if (real_) real_->wipe(region);
}

void Cluster::add(const std::string& region) {
  options_.regions.push_back(region);
  Node& node = nodes_[region];
  node.incarnation = std::to_string(++incarnations_);
  node.worker.holds = node.worker.checkpoint = {.version = 0, .state = initial_state()};
  start(region);
}

Pace Cluster::pace() const {
  return {.steps = 4 * (options_.rounds + 1 - options_.fragments),
          .k = 4 * options_.fragments,
          .fragments = options_.fragments};
}

std::optional<Round> Cluster::rounds_of_run() const {
  std::uint64_t steps = pace().round_steps(0);
  Round rounds = options_.fragments;
  for (const CommitRecord& record : history()) {
    steps += record.next_k;
    if (record.next_k > 0) ++rounds;
  }
  if (steps > pace().steps) throw Violation("the rounds have more steps than the run");
  if (steps < pace().steps) return std::nullopt;
  return rounds;
}

void Cluster::start(const std::string& region) {
  Node& node = nodes_.at(region);
  if (node.outcome || !honest(region)) return;
  if (!node.protocol) {
    ProtocolOptions options;
    options.self = region;
    options.incarnation = node.incarnation;
    options.witness = region == options_.witness;
    options.pace = pace();
    options.k_policy = options_.k_policy;
    options.overlap_steps = options_.overlap_steps;
    options.staleness_max = options_.staleness_max;
    if (options_.shards > 0) options.exchange = ExchangeKind::sharded;
    options.contributions_min = options_.contributions_min;
    options.grace_min = options_.grace_min;
    options.grace_max = options_.grace_max;
    options.spool_bytes = (real_ ? kRealBytes : 1) * options_.spool_bytes;
    options.election = options_.election;
    options.heartbeat = options_.election / 4;
    options.seed = random_();
    options.planted = options_.planted;
    if (real_) read_disk(region);
    for (const inter::BlobId& blob : std::set(node.damaged)) lose(region, blob);  // all are hashed
    options.records_in_memory = 1;
    node.protocol = std::make_unique<RoundProtocol>(options, on_start(node));
    node.checked = node.protocol->version();
    node.run_id_at_start = node.disk.run_id;
    node.forgettable = 0;
    node.stored_at.clear();
    for (const inter::BlobId& blob : node.disk.blobs) node.stored_at[blob] = node.checked;
    deliver(region, Tick{});
    for (const std::string& other : options_.regions) {
      if (other != region) connect(region, other);
    }
  }
  node.worker.running = true;
  if (alive(region) && region != options_.witness) attach_worker(region);
}

void Cluster::start_again(const std::string& region) {
  nodes_.at(region).outcome.reset();
  start(region);
}

void Cluster::heal() {
  for (auto& [pair, state] : links_) {
    state.cut = state.severed;
    // What was lost on the way was lost by a connection that broke.
    if (!std::exchange(state.deaf_to, {}).empty()) disconnect(pair.first, pair.second);
  }
  for (const std::string& region : options_.regions) {
    if (!alive(region) || !nodes_.at(region).worker.running) start(region);
  }
  for (auto& [pair, state] : links_) connect(pair.first, pair.second);
}

void Cluster::corrupt_state(const std::string& region) {
  nodes_.at(region).worker.holds.state = sha256({});
}

void Cluster::pause(const std::string& region, Time duration) {
  Node& node = nodes_.at(region);
  node.paused_until = std::max(node.paused_until, now_ + duration);
}

// What came meanwhile, in its order.
void Cluster::wake(const std::string& region) {
  Node& node = nodes_.at(region);
  if (now_ < node.paused_until) return at(node.paused_until, [this, region] { wake(region); });
  for (const Event& event : std::exchange(node.held, {})) deliver(region, event);
}

void Cluster::jump_clock(const std::string& region, Time by) {
  nodes_.at(region).clock_offset += by;
}

void Cluster::set_wall_clock(const std::string& region, Time ahead) {
  nodes_.at(region).wall_ahead = ahead;
}

void Cluster::slow_down(const std::string& from, Time per_chunk) {
  nodes_.at(from).per_chunk = per_chunk;
}

void Cluster::ask(const std::string& region, const ChangeMember& change) {
  if (alive(region)) deliver(region, OperatorAsked{change});
}

std::optional<std::string> Cluster::leader() const {
  std::optional<std::string> leader;
  Term term = 0;
  for (const auto& [region, node] : nodes_) {
    const bool leads = node.protocol && node.protocol->raft().leads();
    if (!leads || node.protocol->raft().term() < term) continue;
    leader = region;
    term = node.protocol->raft().term();
  }
  return leader;
}

Term Cluster::term() const {
  Term term = 0;
  for (const auto& [region, node] : nodes_) term = std::max(term, node.disk.raft.term);
  return term;
}

std::uint64_t Cluster::sent_bytes(const std::string& region) const {
  return nodes_.at(region).sent_bytes;
}

double Cluster::paid() const {
  double paid = 0;
  for (const auto& [region, node] : nodes_)
    paid += options_.price * static_cast<double>(node.sent_bytes);
  return paid;
}

bool Cluster::has_the_only_vote(const std::string& region) const {
  for (const auto& [name, node] : nodes_) {
    const RaftState& raft = node.disk.raft;
    const auto end = raft.log.begin() + static_cast<std::ptrdiff_t>(raft.committed);
    const auto shares = [](const LogEntry& entry) {
      const auto* members = std::get_if<Membership>(&entry.body);
      return members != nullptr && members->voters() >= 2;
    };
    if (name != region && std::any_of(raft.log.begin(), end, shares)) return false;
  }
  return true;
}

// ---- History ----

History::Evidence Cluster::evidence(const std::string& region, Index index,
                                    const LogEntry& entry) const {
  History::Evidence evidence;
  evidence.newest = nodes_.at(region).protocol->membership();
  const auto count_copy = [&](const std::vector<LogEntry>& log) {
    const bool has = log.size() >= index;
    if (has && testing::serialize(log[index - 1]) == testing::serialize(entry)) ++evidence.copies;
  };
  // Nobody can know better than what a region says of its own disk.
  const std::size_t claimed = options_.liar.empty() ? 0 : 1;
  evidence.copies = claimed;
  for (const RaftState& lost : lost_logs_) count_copy(lost.log);
  for (const auto& [name, node] : nodes_) {
    count_copy(node.disk.raft.log);
    evidence.disks.insert(node.incarnation);
  }
  if (const auto* record = std::get_if<CommitRecord>(&entry.body)) {
    for (const inter::BlobId& blob : applied_blobs(*record)) {
      if (!stored_.contains(blob)) throw Violation("what nobody has is listed");
      evidence.holders[to_hex(blob.hash)] = stored_.at(blob).size() + claimed;
    }
  }
  return evidence;
}

std::size_t Cluster::holders(const inter::BlobId& blob) const {
  return static_cast<std::size_t>(std::ranges::count_if(nodes_, [&blob](const auto& node) {
    return node.second.protocol && node.second.disk.blobs.contains(blob);
  }));
}

Round Cluster::version(const std::string& region) const {
  const RaftState& raft = nodes_.at(region).disk.raft;
  Round version = 0;
  std::uint32_t revision = 0;
  for (Index i = 0; i < raft.committed; ++i) {
    const auto* record = std::get_if<CommitRecord>(&raft.log[i].body);
    if (record == nullptr) continue;
    const Effect effect = effect_of(*record, version, revision);
    if (effect != Effect::none) version = record->round + 1;
    if (effect == Effect::replaces) ++revision;
  }
  return version;
}

Applied Cluster::worker_state(const std::string& region) const {
  return nodes_.at(region).worker.holds;
}

std::uint64_t Cluster::steps_taken(const std::string& region) const {
  return nodes_.at(region).worker.steps;
}

std::optional<EndRun> Cluster::outcome(const std::string& region) const {
  return nodes_.at(region).outcome;
}

std::string Cluster::describe() const {
  std::string text = "at " + std::to_string(now_.count() / 1000) + " ms:";
  for (const auto& [region, node] : nodes_) {
    text += "\n  " + region + ": records " + std::to_string(version(region)) + ", worker at " +
            std::to_string(node.worker.holds.version);
    if (node.outcome) {
      text += ", exit " + std::to_string(node.outcome->exit_code) + ": " + node.outcome->message;
    } else if (node.protocol) {
      const Raft& raft = node.protocol->raft();
      text += ", term " + std::to_string(raft.term()) + ", leader " + raft.leader().value_or("?") +
              (raft.leads() ? " (leads)" : "") +
              (raft.electorate().votes(region) ? "" : " (no vote)") + ", log " +
              std::to_string(raft.committed()) + "/" + std::to_string(raft.log().last()) +
              ", waiting for " + node.protocol->waiting_for(now_);
    } else {
      text += ", down";
    }
  }
  return text;
}

}  // namespace causeway::diloco::testing
