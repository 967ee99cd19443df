#include "tests/diloco/cluster_parts.h"

#include <algorithm>
#include <utility>

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
}

Cluster::~Cluster() = default;

void Cluster::found(Node& node) {
  node.disk.run_id = kRunId;
  Membership membership;
  for (const std::string& region : options_.regions) {
    membership = with(membership, {.region = region, .witness = region == options_.witness});
  }
  Member founder = *membership.find(options_.regions.front());
  founder.incarnation = node.incarnation;
  membership = with(membership, founder);
  if (options_.forked) {
    if (real_) real_->start(founder.region);
    const inter::BlobId blob = keep(founder.region, "of another run", 3000);
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
      return node.first == options_.witness || node.second.outcome.has_value();
    });
  };
  while (!all_ended() && step(limit)) {
  }
  return std::ranges::all_of(nodes_, [this](const auto& node) {
    const int code = membership().find(node.first) == nullptr ? 3 : 0;  // 3: removed
    const bool ended = node.second.outcome && node.second.outcome->exit_code == code;
    return node.first == options_.witness || ended;
  });
}

// ---- Processes ----

bool Cluster::alive(const std::string& region) const {
  return nodes_.at(region).protocol != nullptr;
}

void Cluster::die(const std::string& region) {
  Node& node = nodes_.at(region);
  node.protocol.reset();
  node.tick_at.reset();
  node.held.clear();
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
  node.worker.running = false;
  ++node.worker.life;
  node.worker.ahead = 0;
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
  kill_region(region);
  lost_logs_.push_back(node.disk.raft);
  node.disk = {};
  node.incarnation = std::to_string(++incarnations_);
  node.partial.clear();
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
  if (node.outcome) return;
  if (!node.protocol) {
    ProtocolOptions options;
    options.self = region;
    options.incarnation = node.incarnation;
    options.witness = region == options_.witness;
    options.pace = pace();
    options.k_policy = options_.k_policy;
    options.overlap_steps = options_.overlap_steps;
    options.staleness_max = options_.staleness_max;
    options.contributions_min = options_.contributions_min;
    options.grace_min = options_.grace_min;
    options.grace_max = options_.grace_max;
    options.spool_bytes = options_.spool_bytes;
    options.seed = random_();
    options.planted = options_.planted;
    if (real_) read_disk(region);
    options.records_in_memory = 1;
    node.protocol = std::make_unique<RoundProtocol>(options, on_start(node));
    node.checked = node.protocol->version();
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

void Cluster::heal() {
  for (auto& [pair, state] : links_) {
    state.cut = false;
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

// ---- Handling ----

void Cluster::deliver(const std::string& region, const Event& event) {
  Node& node = nodes_.at(region);
  if (!node.protocol) return;
  const std::uint64_t life = node.life;
  if (now_ < node.paused_until) {
    if (node.held.empty()) at(node.paused_until, [this, region] { wake(region); });
    node.held.push_back(event);
    return;
  }
  if (std::holds_alternative<WorkerAttached>(event)) node.worker.heard = node.worker.session;
  const std::vector<Action> actions = node.protocol->handle(event, now_ + node.clock_offset);
  if (options_.trace != nullptr) trace(region, event, actions);
  std::size_t done = actions.size();
  if (std::bernoulli_distribution(options_.crash_between_actions)(random_) && done > 0) {
    done = random_() % actions.size();
  }
  const bool aimed = options_.crash_at && options_.crash_at->first == region &&
                     node.actions + actions.size() > options_.crash_at->second;
  if (aimed) done = std::exchange(options_.crash_at, std::nullopt)->second - node.actions;
  node.actions += done;
  for (std::size_t i = 0; i < done && node.life == life; ++i) execute(region, actions[i]);
  if (done < actions.size() && node.life == life && !node.outcome) {
    if (const auto* torn = std::get_if<AppendLedger>(&actions[done])) append_torn(region, *torn);
    kill_coordinator(region);
    at(now_ + random_time(milliseconds{500}, seconds{3}), [this, region] { start(region); });
    return;
  }
  if (node.life != life) return;
  check_memory(region);
  schedule_tick(region);
}

void Cluster::trace(const std::string& region, const Event& event,
                    const std::vector<Action>& actions) {
  static const std::vector<std::string> kEvents{
      "RunIdLearned",  "PeerUp",         "PeerDown",      "PeerSaid",    "BlobArrived",
      "BlobProgress",  "WorkerAttached", "WorkerLost",    "WorkerReady", "WorkerContributed",
      "WorkerApplied", "WorkerOffered",  "OperatorAsked", "Tick"};
  static const std::vector<std::string> kMessages{"Status",   "Holding",      "Raft",
                                                  "Diverged", "ChangeMember", "Finished"};
  static const std::vector<std::string> kActions{
      "Send",         "Push",          "Fetch",         "RemoveBlob",    "SaveContributions",
      "SaveSnapshot", "SaveRaft",      "AppendLedger",  "UpdateMembers", "Welcome",
      "OrderTrain",   "OrderContinue", "OrderCallBack", "OrderCollect",  "OrderApply",
      "OrderRestore", "OrderFinish",   "EndRun",        "Note"};
  std::ostream& out = *options_.trace;
  out << now_.count() / 1000 << " " << region << " " << kEvents.at(event.index());
  if (const auto* said = std::get_if<PeerSaid>(&event)) {
    out << " " << said->peer << " " << kMessages.at(said->message.index());
    if (const auto* holding = std::get_if<Holding>(&said->message)) {
      const Contribution& about = holding->contribution;
      out << " " << about.region << about.round << "." << about.part << " "
          << holding->received_bytes << "/" << about.payload.size_bytes;
    }
  }
  out << ":";
  for (const Action& action : actions) {
    out << " " << kActions.at(action.index());
    if (const auto* send = std::get_if<SendMessage>(&action)) {
      out << "(" << send->peer << " " << kMessages.at(send->message.index()) << ")";
    }
    if (const auto* note = std::get_if<Note>(&action)) out << "(" << note->text << ")";
    if (const auto* update = std::get_if<UpdateMembers>(&action)) {
      for (const Member& member : update->membership.members) {
        out << " " << member.region << (member.incarnation.empty() ? "" : "+");
      }
    }
  }
  out << "\n";
}

void Cluster::schedule_tick(const std::string& region) {
  Node& node = nodes_.at(region);
  if (!node.protocol) return;
  std::optional<Time> next = node.protocol->next_deadline();
  if (!next) return;
  if (*next <= now_ + node.clock_offset) {
    throw Violation(region + " asks for a time that has passed");
  }
  next = std::max(*next - node.clock_offset, now_);
  if (node.tick_at && *node.tick_at <= *next) return;
  node.tick_at = next;
  at(*next, [this, region, life = node.life, time = *next] {
    Node& later = nodes_.at(region);
    if (later.life != life || later.tick_at != time) return;
    later.tick_at.reset();
    deliver(region, Tick{});
  });
}

namespace {

// It is for the worker.
bool is_order(const Action& action) {
  return std::visit(
      []<typename Body>(const Body&) {
        return std::is_same_v<Body, WelcomeWorker> || std::is_same_v<Body, OrderTrain> ||
               std::is_same_v<Body, OrderContinue> || std::is_same_v<Body, OrderCallBack> ||
               std::is_same_v<Body, OrderCollect> || std::is_same_v<Body, OrderApply> ||
               std::is_same_v<Body, OrderRestore> || std::is_same_v<Body, OrderFinish>;
      },
      action);
}

}  // namespace

void Cluster::execute(const std::string& region, const Action& action) {
  Node& node = nodes_.at(region);
  struct Visitor {
    Cluster& cluster;
    const std::string& region;
    Node& node;
    void operator()(const SendMessage& a) const { cluster.send(region, a.peer, a.message); }
    void operator()(const PushBlob& a) const {
      if (std::bernoulli_distribution(cluster.options_.push_loss)(cluster.random_)) return;
      if (cluster.real_) return cluster.real_->push(region, a.peer, a.blob);
      cluster.transfer(region, a.peer, a.blob, 0);
    }
    void operator()(const FetchBlob& a) const {
      if (cluster.real_) return cluster.real_->fetch(region, a.peer, a.blob);
      const auto partial = node.partial.find(a.blob);
      cluster.transfer(a.peer, region, a.blob, partial == node.partial.end() ? 0 : partial->second);
    }
    void operator()(const RemoveBlob& a) const {
      node.disk.blobs.erase(a.blob);
      cluster.stored_[a.blob].erase(region);
      node.partial.erase(a.blob);
      node.stored_at.erase(a.blob);
      if (cluster.real_) cluster.real_->remove(region, a.blob);
    }
    void operator()(const SaveContributions& a) const { node.disk.contributions = a.contributions; }
    void operator()(const SaveSnapshot& a) const { node.disk.snapshot = a.snapshot; }
    void operator()(const SaveRaft& a) const { cluster.save_raft(node, a); }
    void operator()(const AppendLedger& a) const { cluster.append(region, a.entries); }
    void operator()(const UpdateMembers&) const {}
    void operator()(const WelcomeWorker& a) const {
      if (a.run_id != kRunId) throw Violation("a worker was welcomed to another run");
      node.worker.has_lineage = true;
      cluster.later_in_session(region, milliseconds{1},
                               [c = &cluster, r = region] { c->deliver(r, WorkerReady{}); });
    }
    void operator()(const OrderTrain& a) const { cluster.train(region, a); }
    void operator()(const OrderContinue&) const { cluster.go_on(region); }
    void operator()(const OrderCallBack&) const { cluster.call_back(region); }
    void operator()(const OrderCollect& a) const { cluster.collect(region, a.round); }
    void operator()(const OrderApply& a) const { cluster.apply(region, a); }
    void operator()(const OrderRestore& a) const { cluster.restore(region, a); }
    void operator()(const OrderFinish& a) const {
      if (a.version != cluster.rounds_of_run()) throw Violation(region + " finishes too early");
      node.worker.finished = true;
      cluster.later_in_session(region, milliseconds{10},
                               [c = &cluster, r = region] { c->deliver(r, WorkerLost{}); });
    }
    void operator()(const EndRun& a) const {
      node.outcome = a;
      cluster.die(region);
    }
    void operator()(const Note&) const {}
  };
  // Whatever is said to a worker that died or attached anew is lost.
  if (is_order(action) && node.worker.heard != node.worker.session) return;
  std::visit(Visitor{*this, region, node}, action);
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
  for (const RaftState& lost : lost_logs_) count_copy(lost.log);
  for (const auto& [name, node] : nodes_) {
    count_copy(node.disk.raft.log);
    evidence.disks.insert(node.incarnation);
  }
  if (const auto* record = std::get_if<CommitRecord>(&entry.body)) {
    for (const Participant& participant : record->participants) {
      evidence.holders[to_hex(participant.payload.hash)] = stored_.at(participant.payload).size();
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
  return static_cast<Round>(std::count_if(
      raft.log.begin(), raft.log.begin() + static_cast<std::ptrdiff_t>(raft.committed),
      [](const LogEntry& entry) { return std::holds_alternative<CommitRecord>(entry.body); }));
}

Applied Cluster::worker_state(const std::string& region) const {
  return nodes_.at(region).worker.holds;
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
              (raft.leads() ? " (leads)" : "") + (raft.votes(region) ? "" : " (no vote)") +
              ", log " + std::to_string(raft.committed()) + "/" +
              std::to_string(raft.log().last()) + ", waiting for " +
              node.protocol->waiting_for(now_);
    } else {
      text += ", down";
    }
  }
  return text;
}

}  // namespace causeway::diloco::testing
