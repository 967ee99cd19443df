#include "tests/diloco/cluster.h"

#include <algorithm>
#include <utility>

namespace causeway::diloco::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr char kRunId[] = "run-1";
constexpr std::uint64_t kChunkBytes = 1000;

inter::BlobId make_blob(const std::string& content, std::uint64_t size_bytes) {
  return {.hash = sha256(std::as_bytes(std::span(content))), .size_bytes = size_bytes};
}

Digest initial_state() {
  return sha256(std::as_bytes(std::span("initial", 7)));
}

Digest next_state(const Digest& state, const CommitRecord& record) {
  const std::string content = to_hex(state) + serialize(record);
  return sha256(std::as_bytes(std::span(content)));
}

}  // namespace

Cluster::Cluster(ClusterOptions options) : options_(std::move(options)), random_(options_.seed) {
  for (const std::string& region : options_.regions) {
    Node& node = nodes_[region];
    if (region == options_.regions.front()) node.disk.run_id = kRunId;
    node.worker.holds = node.worker.checkpoint = {.version = 0, .state = initial_state()};
  }
  for (const std::string& region : options_.regions) start(region);
}

Cluster::~Cluster() = default;

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
  const auto all_ended = [this] {
    return std::ranges::all_of(nodes_,
                               [](const auto& node) { return node.second.outcome.has_value(); });
  };
  while (!all_ended() && step(limit)) {
  }
  return std::ranges::all_of(nodes_, [](const auto& node) {
    return node.second.outcome && node.second.outcome->exit_code == 0;
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
  ++node.life;
  ++node.worker.session;
  drop_links(region);
}

void Cluster::kill_coordinator(const std::string& region) {
  if (alive(region)) die(region);
}

void Cluster::kill_worker(const std::string& region) {
  Node& node = nodes_.at(region);
  node.worker.running = false;
  ++node.worker.life;
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
  node.disk = {};
  node.partial.clear();
}

void Cluster::start(const std::string& region) {
  Node& node = nodes_.at(region);
  if (node.outcome) return;
  if (!node.protocol) {
    ProtocolOptions options{.self = region,
                            .roster = {options_.regions.begin(), options_.regions.end()},
                            .decider = options_.regions.front(),
                            .rounds = options_.rounds,
                            .k = 4,
                            .contributions_min = options_.contributions_min,
                            .grace_min = seconds{2},
                            .grace_max = seconds{20}};
    node.protocol = std::make_unique<RoundProtocol>(options, node.disk);
    deliver(region, Tick{});
    for (const std::string& other : options_.regions) {
      if (other != region) connect(region, other);
    }
  }
  node.worker.running = true;
  if (alive(region)) attach_worker(region);
}

void Cluster::heal() {
  for (auto& [pair, state] : links_) state.cut = false;
  for (const std::string& region : options_.regions) {
    if (!alive(region) || !nodes_.at(region).worker.running) start(region);
  }
  for (auto& [pair, state] : links_) connect(pair.first, pair.second);
}

void Cluster::corrupt_state(const std::string& region) {
  nodes_.at(region).worker.holds.state = sha256({});
}

// ---- Handling ----

void Cluster::deliver(const std::string& region, const Event& event) {
  Node& node = nodes_.at(region);
  if (!node.protocol) return;
  const std::uint64_t life = node.life;
  const std::vector<Action> actions = node.protocol->handle(event, now_);
  const bool crash =
      std::bernoulli_distribution(options_.crash_between_actions)(random_) && !actions.empty();
  const std::size_t done = crash ? random_() % actions.size() : actions.size();
  for (std::size_t i = 0; i < done && node.life == life; ++i) execute(region, actions[i]);
  if (crash && node.life == life && !node.outcome) {
    kill_coordinator(region);
    at(now_ + random_time(milliseconds{500}, seconds{3}), [this, region] { start(region); });
    return;
  }
  if (node.life == life) schedule_tick(region);
}

void Cluster::schedule_tick(const std::string& region) {
  Node& node = nodes_.at(region);
  if (!node.protocol) return;
  const std::optional<Time> next = node.protocol->next_deadline();
  if (!next || (node.tick_at && *node.tick_at <= *next)) return;
  if (*next <= now_) throw Violation(region + " asks for a time that has passed");
  node.tick_at = next;
  at(*next, [this, region, life = node.life, time = *next] {
    Node& later = nodes_.at(region);
    if (later.life != life || later.tick_at != time) return;
    later.tick_at.reset();
    deliver(region, Tick{});
  });
}

void Cluster::execute(const std::string& region, const Action& action) {
  Node& node = nodes_.at(region);
  struct Visitor {
    Cluster& cluster;
    const std::string& region;
    Node& node;
    void operator()(const SendMessage& a) const { cluster.send(region, a.peer, a.message); }
    void operator()(const PushBlob& a) const {
      if (std::bernoulli_distribution(cluster.options_.push_loss)(cluster.random_)) return;
      cluster.transfer(region, a.peer, a.blob, 0);
    }
    void operator()(const FetchBlob& a) const {
      const auto partial = node.partial.find(a.blob);
      cluster.transfer(a.peer, region, a.blob, partial == node.partial.end() ? 0 : partial->second);
    }
    void operator()(const RemoveBlob& a) const {
      node.disk.blobs.erase(a.blob);
      node.partial.erase(a.blob);
    }
    void operator()(const SaveContribution& a) const { node.disk.contribution = a.contribution; }
    void operator()(const SaveSnapshot& a) const { node.disk.snapshot = a.snapshot; }
    void operator()(const AppendRecords& a) const { cluster.append(region, a.records); }
    void operator()(const WelcomeWorker& a) const {
      if (a.run_id != kRunId) throw Violation("a worker was welcomed to another run");
      node.worker.has_lineage = true;
      cluster.later_in_session(region, milliseconds{1},
                               [c = &cluster, r = region] { c->deliver(r, WorkerReady{}); });
    }
    void operator()(const OrderTrain& a) const { cluster.train(region, a); }
    void operator()(const OrderApply& a) const { cluster.apply(region, a); }
    void operator()(const OrderRestore& a) const { cluster.restore(region, a); }
    void operator()(const OrderFinish& a) const {
      if (a.version != cluster.options_.rounds) throw Violation(region + " finishes too early");
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
  std::visit(Visitor{*this, region, node}, action);
}

// ---- History ----

void Cluster::append(const std::string& region, const std::vector<CommitRecord>& records) {
  Node& node = nodes_.at(region);
  for (const CommitRecord& record : records) {
    if (record.round != node.disk.records.size())
      throw Violation(region + " skips or repeats a round");
    if (record.round == history_.size()) {
      if (region != options_.regions.front()) throw Violation(region + " decided a round");
      for (const Participant& participant : record.participants) {
        if (holders(participant.payload) == 0) {
          throw Violation("round " + std::to_string(record.round) + " lists a payload of " +
                          participant.region + " that no live region holds");
        }
      }
      if (record.participants.size() < options_.contributions_min) {
        throw Violation("a round committed with too few contributions");
      }
      history_.push_back(record);
    }
    if (serialize(record) != serialize(history_.at(record.round))) {
      throw Violation(region + " has another history in round " + std::to_string(record.round));
    }
    node.disk.records.push_back(record);
  }
}

std::size_t Cluster::holders(const inter::BlobId& blob) const {
  return static_cast<std::size_t>(std::ranges::count_if(nodes_, [&blob](const auto& node) {
    return node.second.protocol && node.second.disk.blobs.contains(blob);
  }));
}

Round Cluster::version(const std::string& region) const {
  return nodes_.at(region).disk.records.size();
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
    text += "\n  " + region + ": records " + std::to_string(node.disk.records.size()) +
            ", worker at " + std::to_string(node.worker.holds.version);
    if (node.outcome) {
      text += ", exit " + std::to_string(node.outcome->exit_code) + ": " + node.outcome->message;
    } else if (node.protocol) {
      text += ", waiting for " + node.protocol->waiting_for(now_);
    } else {
      text += ", down";
    }
  }
  return text;
}

// ---- Network ----

Cluster::Link& Cluster::link(const std::string& a, const std::string& b) {
  return links_[std::minmax(a, b)];
}

void Cluster::connect(const std::string& a, const std::string& b) {
  Link& state = link(a, b);
  if (state.established || state.connecting || state.cut || !alive(a) || !alive(b)) return;
  state.connecting = true;
  at(now_ + random_time(milliseconds{10}, milliseconds{1500}), [this, a, b] {
    Link& later = link(a, b);
    later.connecting = false;
    if (later.established || later.cut || !alive(a) || !alive(b)) return;
    later.established = true;
    ++later.epoch;
    for (const auto& [self, peer] : {std::pair(a, b), std::pair(b, a)}) {
      const bool missed_the_loss = std::exchange(later.up[self], true);
      if (missed_the_loss) deliver(self, PeerDown{peer});
      Node& node = nodes_.at(self);
      if (alive(self) && node.disk.run_id.empty() && peer == options_.regions.front()) {
        node.disk.run_id = kRunId;
        deliver(self, RunIdLearned{kRunId});
      }
    }
    for (const auto& [self, peer] : {std::pair(a, b), std::pair(b, a)}) {
      if (later.established) deliver(self, PeerUp{peer});
    }
  });
}

// Each end notices in its own time; what was under way is lost.
void Cluster::disconnect(const std::string& a, const std::string& b) {
  Link& state = link(a, b);
  if (!state.established) return;
  state.established = false;
  const std::uint64_t epoch = ++state.epoch;
  for (const auto& [self, peer] : {std::pair(a, b), std::pair(b, a)}) {
    if (!alive(self)) {
      state.up[self] = false;
      continue;
    }
    at(now_ + random_time(milliseconds{1}, seconds{4}), [this, self, peer, epoch] {
      Link& later = link(self, peer);
      if (later.epoch != epoch || !later.up[self]) return;
      later.up[self] = false;
      deliver(self, PeerDown{peer});
      connect(self, peer);
    });
  }
}

void Cluster::drop_links(const std::string& region) {
  for (const std::string& other : options_.regions) {
    if (other == region) continue;
    disconnect(region, other);
    link(region, other).up[region] = false;
  }
}

void Cluster::cut(const std::string& a, const std::string& b) {
  link(a, b).cut = true;
  disconnect(a, b);
}

void Cluster::send(const std::string& from, const std::string& to, const Message& message) {
  Link& state = link(from, to);
  if (!state.established) return;
  Time& last = state.last_arrival[to];
  last = std::max(last, now_ + random_time(milliseconds{5}, milliseconds{300}));
  // Through the wire format, as the real thing.
  at(last, [this, from, to, epoch = state.epoch, bytes = serialize(message)] {
    if (link(from, to).epoch == epoch) deliver(to, PeerSaid{from, parse_message(bytes)});
  });
}

void Cluster::transfer(const std::string& from, const std::string& to, const inter::BlobId& blob,
                       std::uint64_t offset) {
  Link& state = link(from, to);
  if (!state.established) return;
  at(now_ + random_time(milliseconds{20}, milliseconds{500}),
     [this, from, to, blob, offset, epoch = state.epoch] {
       Node& receiver = nodes_.at(to);
       const bool held = alive(from) && nodes_.at(from).disk.blobs.contains(blob);
       if (link(from, to).epoch != epoch || !alive(to) || !held) return;
       if (receiver.disk.blobs.contains(blob)) return;
       std::uint64_t& partial = receiver.partial[blob];
       const std::uint64_t end = std::min(offset + kChunkBytes, blob.size_bytes);
       if (offset > partial) return;
       partial = std::max(partial, end);
       if (partial == blob.size_bytes) {
         store(to, blob);
         return deliver(to, BlobArrived{blob});
       }
       const auto wanted = receiver.protocol->wanted();
       if (std::ranges::find(wanted, blob) != wanted.end()) {
         deliver(to, BlobProgress{blob, partial});
       }
       transfer(from, to, blob, end);
     });
}

void Cluster::store(const std::string& region, const inter::BlobId& blob) {
  Node& node = nodes_.at(region);
  node.partial.erase(blob);
  node.disk.blobs.insert(blob);
}

// ---- Workers ----

void Cluster::later_in_session(const std::string& region, Time delay,
                               std::function<void()> action) {
  const Worker& worker = nodes_.at(region).worker;
  at(now_ + delay,
     [this, region, life = worker.life, session = worker.session, action = std::move(action)] {
       const Worker& later = nodes_.at(region).worker;
       if (later.life == life && later.session == session) action();
     });
}

void Cluster::attach_worker(const std::string& region) {
  Worker& worker = nodes_.at(region).worker;
  ++worker.session;
  later_in_session(region, random_time(milliseconds{10}, milliseconds{800}), [this, region] {
    const Worker& attached = nodes_.at(region).worker;
    deliver(region, WorkerAttached{attached.holds, attached.has_lineage,
                                   attached.has_lineage ? kRunId : ""});
  });
}

void Cluster::train(const std::string& region, const OrderTrain& order) {
  Node& node = nodes_.at(region);
  if (order.round != node.worker.holds.version) throw Violation(region + " trains another round");
  const auto& saved = node.disk.contribution;
  if (saved && saved->round == order.round && node.disk.blobs.contains(saved->payload)) {
    throw Violation(region + " trains a round twice");
  }
  if (saved && order.data_cursor < saved->data_cursor) throw Violation(region + " repeats samples");
  const auto slow = options_.slowness.find(region);
  const int factor = slow == options_.slowness.end() ? 1 : slow->second;
  const Time compute = factor * random_time(options_.compute_min, options_.compute_max);
  later_in_session(region, compute, [this, region, order] {
    Node& later = nodes_.at(region);
    const std::uint64_t size_bytes = 500 + random_() % 4000;
    const inter::BlobId payload = make_blob(
        region + "/" + std::to_string(order.round) + "/" + std::to_string(random_()), size_bytes);
    store(region, payload);
    deliver(region, WorkerContributed{{.run_id = kRunId,
                                       .region = region,
                                       .round = order.round,
                                       .tokens = 100 + random_() % 50,
                                       .data_cursor = order.data_cursor + 10,
                                       .state = later.worker.holds.state,
                                       .delta_norm = 1,
                                       .error_norm = 0.1,
                                       .payload = payload}});
    later_in_session(region, milliseconds{1}, [this, region] { deliver(region, WorkerReady{}); });
  });
}

void Cluster::apply(const std::string& region, const OrderApply& order) {
  Node& node = nodes_.at(region);
  if (order.record.round != node.worker.holds.version)
    throw Violation(region + " applies another round");
  for (const Participant& participant : order.record.participants) {
    if (!node.disk.blobs.contains(participant.payload)) {
      throw Violation(region + " applies a payload that is not on its disk");
    }
  }
  const Applied next{.version = order.record.round + 1,
                     .state = next_state(node.worker.holds.state, order.record)};
  later_in_session(region, random_time(milliseconds{5}, milliseconds{200}),
                   [this, region, next] { after_apply(region, next); });
}

void Cluster::restore(const std::string& region, const OrderRestore& order) {
  if (!nodes_.at(region).disk.blobs.contains(order.snapshot.blob)) {
    throw Violation(region + " restores a snapshot that is not on its disk");
  }
  ++restores_;
  const Applied next{.version = order.snapshot.version, .state = order.snapshot.state};
  later_in_session(region, milliseconds{50}, [this, region, next] { after_apply(region, next); });
}

void Cluster::after_apply(const std::string& region, Applied holds) {
  Node& node = nodes_.at(region);
  node.worker.holds = holds;
  deliver(region, WorkerApplied{holds});
  if (holds.version % options_.checkpoint_rounds == 0 && alive(region)) {
    node.worker.checkpoint = holds;
    node.worker.checkpoint_has_lineage = true;
    const inter::BlobId blob = make_blob("snapshot " + to_hex(holds.state), 3000);
    store(region, blob);
    deliver(region, WorkerOffered{{holds.version, holds.state, blob}});
  }
  later_in_session(region, milliseconds{1}, [this, region] { deliver(region, WorkerReady{}); });
}

}  // namespace causeway::diloco::testing
