#include "tests/sim/virtual_run.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "wan-sim/chance.h"

namespace causeway::sim {
namespace {

using namespace diloco;
using std::chrono::milliseconds;
using std::chrono::seconds;
using wan_sim::Time;

constexpr char kRunId[] = "run-1";
// As the coordinator polls its spool.
constexpr Time kPollInterval = seconds{1};
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

// A region's coordinator and its worker.
class VirtualRun::Region : public inter::MeshHandler {
 public:
  Region(VirtualRun& run, std::string name) : run_(run), name_(std::move(name)) {
    if (is_first()) disk_.run_id = kRunId;
    holds_ = checkpoint_ = {.version = 0, .state = sha256(std::as_bytes(std::span("initial", 7)))};
  }

  void start();
  void kill();
  void poll();
  bool alive() const { return protocol_ != nullptr; }
  const std::optional<EndRun>& outcome() const { return outcome_; }
  const Applied& holds() const { return holds_; }
  double wait_s() const { return wan_sim::in_seconds(waited_); }
  std::string describe() const;

  // inter::MeshHandler
  std::string judge_greeting(const std::string&, const std::string& greeting) override {
    return greeting.empty() || greeting == kRunId ? "" : "another run";
  }
  void on_refused_by(const std::string&, const std::string&) override {}
  void on_peer_up(const std::string& peer) override;
  void on_peer_down(const std::string& peer, const std::string&) override {
    deliver(PeerDown{peer});
  }
  void on_message(const std::string& peer, const std::string& message) override {
    deliver(PeerSaid{peer, parse_message(message)});
  }
  void on_blob(const std::string&, const inter::BlobId& id) override {
    disk_.blobs.insert(id);
    deliver(BlobArrived{id});
  }

  // Actions of the protocol.
  void operator()(const SendMessage& a) { site_->send(a.peer, serialize(a.message)); }
  void operator()(const PushBlob& a) { site_->push_blob(a.peer, a.blob); }
  void operator()(const FetchBlob& a) { site_->fetch_blob(a.peer, a.blob); }
  void operator()(const RemoveBlob& a) {
    disk_.blobs.erase(a.blob);
    spool_.remove(a.blob);
  }
  void operator()(const SaveContribution& a) { disk_.contribution = a.contribution; }
  void operator()(const SaveSnapshot& a) { disk_.snapshot = a.snapshot; }
  void operator()(const AppendRecords& a);
  void operator()(const WelcomeWorker&) {
    has_lineage_ = true;
    later(milliseconds{1}, [this] { deliver(WorkerReady{}); });
  }
  void operator()(const OrderTrain& a);
  void operator()(const OrderApply& a);
  void operator()(const OrderRestore& a);
  void operator()(const OrderFinish&) {
    later(milliseconds{10}, [this] { deliver(WorkerLost{}); });
  }
  void operator()(const EndRun& a);
  void operator()(const Note& a) { run_.wan_.log("note " + name_ + " " + a.text); }

 private:
  bool is_first() const { return name_ == run_.options_.scenario.regions.front(); }
  void deliver(const Event& event);
  void schedule_tick();
  void later(Time delay, std::function<void()> event);
  void attach_worker();
  void trained(const OrderTrain& order);
  void applied(const Applied& next);
  void keep(const inter::BlobId& blob) {
    disk_.blobs.insert(blob);
    spool_.put(blob);
  }
  // Leaves when no handler of it runs any more.
  void leave();

  VirtualRun& run_;
  std::string name_;
  PersistentState disk_;
  wan_sim::PhantomSpool spool_;
  std::unique_ptr<wan_sim::Internet::Site> site_;
  std::unique_ptr<RoundProtocol> protocol_;
  std::optional<EndRun> outcome_;
  std::optional<Time> tick_at_;
  std::uint64_t life_ = 0;
  Applied holds_, checkpoint_;
  bool has_lineage_ = false, checkpoint_has_lineage_ = false;
  Time idle_since_{0}, waited_{0};
};

void VirtualRun::Region::start() {
  if (outcome_ || alive()) return;
  const auto& scenario = run_.options_.scenario;
  ProtocolOptions options{.self = name_,
                          .roster = {scenario.regions.begin(), scenario.regions.end()},
                          .decider = scenario.regions.front(),
                          .rounds = run_.options_.rounds,
                          .k = 100,
                          .contributions_min = scenario.regions.size() / 2 + 1,
                          .grace_min = seconds{2},
                          .grace_max = seconds{60}};
  protocol_ = std::make_unique<RoundProtocol>(options, disk_);
  site_ = run_.internet_.start(name_, disk_.run_id, spool_, *this);
  deliver(Tick{});
  attach_worker();
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

void VirtualRun::Region::on_peer_up(const std::string& peer) {
  if (alive() && disk_.run_id.empty() && peer == run_.options_.scenario.regions.front()) {
    disk_.run_id = kRunId;
    deliver(RunIdLearned{kRunId});
  }
  deliver(PeerUp{peer});
}

void VirtualRun::Region::poll() {
  if (!protocol_) return;
  for (const inter::BlobId& blob : protocol_->wanted()) {
    const std::uint64_t bytes = spool_.received_bytes(blob);
    if (bytes > 0 && protocol_) deliver(BlobProgress{blob, bytes});
  }
}

void VirtualRun::Region::operator()(const AppendRecords& action) {
  for (const CommitRecord& record : action.records) {
    auto& history = run_.history_;
    if (record.round == history.size()) {
      history.push_back(record);
      run_.wan_.log("commit " + std::to_string(record.round) + " of " +
                    std::to_string(record.participants.size()));
    }
    if (serialize(record) != serialize(history.at(record.round))) {
      throw std::logic_error(name_ + " has another history in round " +
                             std::to_string(record.round));
    }
    disk_.records.push_back(record);
  }
}

void VirtualRun::Region::attach_worker() {
  idle_since_ = run_.wan_.now();
  later(milliseconds{10}, [this] {
    deliver(WorkerAttached{holds_, has_lineage_, has_lineage_ ? kRunId : ""});
  });
}

void VirtualRun::Region::operator()(const OrderTrain& order) {
  waited_ += run_.wan_.now() - idle_since_;
  const double u = wan_sim::uniform(
      wan_sim::mix(wan_sim::mix(run_.options_.scenario.seed, wan_sim::key_of(name_)), order.round));
  const double factor = 1 + run_.options_.compute_spread * (2 * u - 1);
  const auto compute =
      static_cast<Time::rep>(static_cast<double>(run_.options_.compute.count()) * factor);
  later(Time(compute), [this, order] { trained(order); });
}

void VirtualRun::Region::trained(const OrderTrain& order) {
  idle_since_ = run_.wan_.now();
  const inter::BlobId payload =
      blob_named(name_ + "/" + std::to_string(order.round) + "/" + std::to_string(life_),
                 run_.options_.payload_bytes);
  keep(payload);
  deliver(WorkerContributed{{.run_id = kRunId,
                             .region = name_,
                             .round = order.round,
                             .tokens = 1000,
                             .data_cursor = order.data_cursor + 10,
                             .state = holds_.state,
                             .delta_norm = 1,
                             .error_norm = 0.1,
                             .payload = payload}});
  later(milliseconds{1}, [this] { deliver(WorkerReady{}); });
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
  std::string text = name_ + ": records " + std::to_string(disk_.records.size()) + ", worker at " +
                     std::to_string(holds_.version);
  if (outcome_)
    return text + ", exit " + std::to_string(outcome_->exit_code) + " " + outcome_->message;
  if (!protocol_) return text + ", down";
  return text + ", waits for " + protocol_->waiting_for(in_microseconds(run_.wan_.now()));
}

VirtualRun::VirtualRun(RunOptions options)
    : options_(std::move(options)),
      wan_(options_.scenario, {.mode = options_.mode,
                               .log = options_.log,
                               .on_process = [this](const auto& action) { on_process(action); }}),
      internet_(wan_) {
  for (const std::string& name : options_.scenario.regions) {
    regions_[name] = std::make_unique<Region>(*this, name);
  }
  for (const auto& [name, region] : regions_) region->start();
  poll();
}

VirtualRun::~VirtualRun() {
  for (const auto& [name, region] : regions_) region->kill();
  while (wan_.step(wan_.now())) {
  }
}

void VirtualRun::poll() {
  internet_.settle();
  for (const auto& [name, region] : regions_) region->poll();
  wan_.after(kPollInterval, [this] { poll(); });
}

bool VirtualRun::finish(Time limit) {
  const auto ended = [](const auto& entry) { return entry.second->outcome().has_value(); };
  while (!std::ranges::all_of(regions_, ended) && wan_.step(limit)) {
  }
  return std::ranges::all_of(regions_, [](const auto& entry) {
    return entry.second->outcome() && entry.second->outcome()->exit_code == 0;
  });
}

void VirtualRun::kill(const std::string& region) {
  regions_.at(region)->kill();
}

void VirtualRun::start(const std::string& region) {
  wan_.at(wan_.now(), [this, region] { regions_.at(region)->start(); });
}

void VirtualRun::on_process(const wan_sim::ProcessAction& action) {
  using wan_sim::ProcessVerb;
  if (action.verb == ProcessVerb::kill || action.verb == ProcessVerb::restart) kill(action.region);
  if (action.verb == ProcessVerb::restart) start(action.region);
  if (action.verb == ProcessVerb::pause || action.verb == ProcessVerb::resume) {
    throw std::logic_error("a virtual process is not paused; stall its links instead");
  }
}

diloco::Applied VirtualRun::state(const std::string& region) const {
  return regions_.at(region)->holds();
}

double VirtualRun::wait_s(const std::string& region) const {
  return regions_.at(region)->wait_s();
}

std::string VirtualRun::describe() const {
  std::string text = "at " + std::to_string(wan_sim::in_seconds(wan_.now())) + " s";
  for (const auto& [name, region] : regions_) text += "\n  " + region->describe();
  return text;
}

}  // namespace causeway::sim
