// Cluster: what a coordinator is told, and that what it answers is done.
#include <ostream>
#include <type_traits>
#include <utility>

#include "tests/diloco/cluster/cluster_parts.h"

namespace causeway::diloco::testing {

using std::chrono::milliseconds;
using std::chrono::seconds;

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
  if (options_.spool_bytes > 0) node.protocol->set_room(room(region), begun(region));
  node.protocol->set_wall_clock(options_.unix_s_at_zero +
                                std::chrono::duration<double>(now_ + node.wall_ahead).count());
  const std::vector<Action> actions = node.protocol->handle(event, now_ + node.clock_offset);
  if (options_.trace != nullptr) trace(region, event, actions);
  std::size_t done = actions.size();
  const bool crashes = std::bernoulli_distribution(options_.crash_between_actions)(random_);
  if (crashes && done > 0 && now_ < options_.crashes_end) {
    done = random_() % actions.size();
    ++crashes_;
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
      "RunIdLearned",      "PeerUp",        "PeerDown",
      "PeerSaid",          "BlobArrived",   "BlobProgress",
      "BlobLost",          "BlobAbsent",    "WorkerAttached",
      "WorkerReadData",    "WorkerLost",    "WorkerReady",
      "WorkerContributed", "WorkerApplied", "ShardSummed",
      "ShardNotSummed",    "WorkerOffered", "SnapshotChecked",
      "RoomNeeded",        "OperatorAsked", "Tick"};
  static const std::vector<std::string> kMessages{"Status",       "Holding",  "Raft",    "Diverged",
                                                  "ChangeMember", "Finished", "Tensors", "Holdings",
                                                  "Draft",        "ShardSums"};
  static const std::vector<std::string> kActions{
      "Send",          "Push",         "Fetch",
      "Forgo",         "RemoveBlob",   "SaveContributions",
      "SumShard",      "SaveSnapshot", "CheckSnapshot",
      "SaveRaft",      "AppendLedger", "UpdateMembers",
      "Welcome",       "OrderTrain",   "OrderContinue",
      "OrderCallBack", "OrderCollect", "OrderApply",
      "OrderRestore",  "OrderFinish",  "EndRun",
      "Note"};
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
    void operator()(const PushBlob& a) const { cluster.push(region, a); }
    void operator()(const FetchBlob& a) const { cluster.fetch(region, a); }
    void operator()(const ForgoBlob& a) const { cluster.forgo(region, a); }
    void operator()(const RemoveBlob& a) const { cluster.remove(region, a.blob); }
    void operator()(const SaveContributions& a) const { node.disk.contributions = a.contributions; }
    void operator()(const SaveSnapshot& a) const { node.disk.snapshot = a.snapshot; }
    void operator()(const SumShard& a) const { cluster.sum(region, a); }
    void operator()(const CheckSnapshot& a) const { cluster.check(region, a.snapshot); }
    void operator()(const SaveRaft& a) const { cluster.save_raft(node, a); }
    void operator()(const AppendLedger& a) const { cluster.append(region, a.entries); }
    void operator()(const UpdateMembers&) const {}
    void operator()(const WelcomeWorker& a) const {
      if (a.run_id != kRunId) throw Violation("a worker was welcomed to another run");
      node.worker.has_lineage = true;
      const std::optional<Applied> offered = node.worker.offered;
      if (a.snapshot_from > 0 && offered && offered->version >= a.snapshot_from)
        cluster.offer_snapshot(region, *offered);
      cluster.later_in_session(region, milliseconds{1},
                               [c = &cluster, r = region] { c->say_ready(r); });
    }
    void operator()(const OrderTrain& a) const { cluster.train(region, a); }
    void operator()(const OrderContinue& a) const { cluster.go_on(region, a); }
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

void Cluster::push(const std::string& region, const PushBlob& action) {
  if (std::bernoulli_distribution(options_.push_loss)(random_)) return;
  if (real_) return real_->push(region, action.peer, action.blob);
  transfer(region, action.peer, action.blob, 0);
}

void Cluster::fetch(const std::string& region, const FetchBlob& action) {
  if (real_) return real_->fetch(region, action.peer, action.blob);
  if (!fits(region, action.blob)) throw Violation(region + " asks for what it has no room for");
  transfer(action.peer, region, action.blob, nodes_.at(region).partial[action.blob]);
}

// Without the real code, transfers do not wait for each other.
void Cluster::forgo(const std::string& region, const ForgoBlob& action) {
  if (real_) real_->forgo(region, action.peer, action.blob);
}

void Cluster::remove(const std::string& region, const inter::BlobId& blob) {
  Node& node = nodes_.at(region);
  if (node.disk.blobs.erase(blob) > 0) stored_[blob].erase(region);
  node.partial.erase(blob);
  node.spoilt.erase(blob);
  node.damaged.erase(blob);
  node.stored_at.erase(blob);
  if (real_) real_->remove(region, blob);
}

}  // namespace causeway::diloco::testing
