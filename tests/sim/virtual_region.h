// A region of a run in virtual time: its coordinator and its worker.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tests/sim/virtual_run.h"

namespace causeway::sim {

using namespace diloco;
using std::chrono::milliseconds;
using std::chrono::seconds;
using wan_sim::Time;

inline constexpr char kRunId[] = "run-1";
// As the coordinator polls its spool.
inline constexpr Time kPollInterval = seconds{1};

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
  void on_refused_by(const std::string&, const inter::LinkError&) override {}
  void on_peer_up(const std::string& peer, const std::string& via) override;
  void on_peer_down(const std::string& peer, const std::string&) override {
    deliver(PeerDown{peer});
  }
  void on_message(const std::string& peer, const std::string& message) override {
    Message said = parse_message(message);
    const bool holds =
        std::holds_alternative<Holding>(said) || std::holds_alternative<Holdings>(said);
    run_.wan_.log((holds ? "holding " : "other ") + peer + " " + name_);
    deliver(PeerSaid{peer, std::move(said)});
  }
  void on_blob(const std::string&, const inter::BlobId& id) override {
    disk_.blobs.insert(id);
    deliver(BlobArrived{id});
  }

  // Actions of the protocol.
  void operator()(const SendMessage& a) { site_->send(a.peer, serialize(a.message)); }
  void operator()(const PushBlob& a) { site_->push_blob(a.peer, a.blob); }
  void operator()(const FetchBlob& a) { site_->fetch_blob(a.peer, a.blob); }
  void operator()(const ForgoBlob& a) { site_->forgo_blob(a.peer, a.blob); }
  void operator()(const RemoveBlob& a) {
    disk_.blobs.erase(a.blob);
    spool_.remove(a.blob);
  }
  void operator()(const SaveContributions& a) { disk_.contributions = a.contributions; }
  void operator()(const SaveSnapshot& a) { disk_.snapshot = a.snapshot; }
  void operator()(const SumShard&) {}  // no run here is sharded
  void operator()(const CheckSnapshot& a) {
    later(milliseconds{1}, [this, a] { deliver(SnapshotChecked{a.snapshot, true}); });
  }
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

}  // namespace causeway::sim
