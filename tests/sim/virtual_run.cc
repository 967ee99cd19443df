#include "tests/sim/virtual_run.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "wan-sim/base/chance.h"

namespace causeway::sim {
namespace {

using namespace diloco;
using std::chrono::milliseconds;
using std::chrono::seconds;
using wan_sim::Time;

constexpr std::uint64_t kSamples = 10;  // of a round
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
  void operator()(const SaveContributions& a) { disk_.contributions = a.contributions; }
  void operator()(const SaveSnapshot& a) { disk_.snapshot = a.snapshot; }
  void operator()(const SaveRaft& a);
  void operator()(const AppendLedger& a);
  void operator()(const UpdateMembers&) {}
  void operator()(const WelcomeWorker&) {
    has_lineage_ = true;
    later(milliseconds{1}, [this] { deliver(WorkerReady{}); });
  }
  void operator()(const OrderTrain& a);
  void operator()(const OrderContinue& a);
  void operator()(const OrderCallBack&);
  void operator()(const OrderCollect& a);
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
  void found();
  Time compute_time(Round round) const;
  void contribute(Round round, std::uint32_t part, std::uint64_t begin, std::uint64_t samples);
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
  bool continuing_ = false;
  std::uint64_t extra_begin_ = 0, extra_ = 0;  // samples since it contributed
};

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

void VirtualRun::Region::on_peer_up(const std::string& peer) {
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

void VirtualRun::committed(const std::string& region, const CommitRecord& record) {
  if (record.round == history_.size()) {
    history_.push_back(record);
    wan_.log("commit " + std::to_string(record.round) + " of " +
             std::to_string(record.participants.size()));
  }
  if (serialize(record) != serialize(history_.at(record.round))) {
    throw std::logic_error(region + " has another history in round " +
                           std::to_string(record.round));
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
