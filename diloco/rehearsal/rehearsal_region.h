// One region of a rehearsal: its coordinator's protocol, and its worker.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "diloco/rehearsal/rehearsal.h"
#include "diloco/round/round_protocol.h"

namespace causeway::diloco::tuner {

// The worker of a region in a rehearsal: it counts its steps and says when they are done.

// The one run of every rehearsal.
inline constexpr char kRunId[] = "rehearsal";

class RehearsalWorker {
 public:
  using Tell = std::function<void(const Event&)>;

  // `tell`: the region's coordinator. `world` and `options` outlive the worker.
  RehearsalWorker(World& world, const RehearsalOptions& options, std::string region, Tell tell);

  void attach();
  Round version() const { return holds_.version; }
  // When version v + 1 was applied, and the compute done by then.
  struct Mark {
    Time at{0};
    double compute_s = 0;
    std::size_t participants = 0;  // listed in their round
  };
  const std::vector<Mark>& marks() const { return marks_; }
  // What a whole round takes, for the part of the model that one round exchanges.
  double part(double whole_s) const { return whole_s / fragments(); }

  // What its coordinator says.
  void operator()(const WelcomeWorker&);
  void operator()(const OrderTrain& order);
  void operator()(const OrderContinue& order);
  void operator()(const OrderCallBack&);
  void operator()(const OrderCollect& order);
  void operator()(const OrderApply& order);
  void operator()(const OrderRestore& order);
  void operator()(const OrderFinish&);

 private:
  double fragments() const;
  double steps_s(std::uint64_t count);
  void later(double seconds, std::function<void()> event);
  void ready_soon();
  void compute_to(std::uint64_t step, std::function<void()> then);
  void contribute(Round round, std::uint32_t part, std::uint64_t steps);
  void settle();
  void apply();
  void offer_snapshot();

  World& world_;
  const RehearsalOptions& options_;
  std::string region_;
  RegionSpeed speed_;
  Tell tell_;
  std::mt19937_64 chance_;
  Applied holds_;
  std::uint64_t steps_ = 0, cursor_ = 0;
  double compute_s_ = 0;
  bool busy_ = false;  // has not come to where it needs the outcome of what it contributes
  std::optional<CommitRecord> record_;
  bool continuing_ = false;
  std::uint64_t extra_steps_ = 0;  // since it contributed, that nobody was told of
  std::vector<Mark> marks_;
};

// Draws of a region differ from another's.
std::uint64_t seed_of(std::uint64_t seed, const std::string& region);
// An event so many virtual seconds from now.
void after_s(World& world, double seconds, std::function<void()> event);

class RehearsalRegion : public inter::MeshHandler {
 public:
  RehearsalRegion(World& world, const RehearsalOptions& options, std::string name);
  ~RehearsalRegion() override;

  void start();
  void poll();
  Round version() const { return worker_.version(); }
  bool ended() const { return ended_; }
  const std::vector<RehearsalWorker::Mark>& marks() const { return worker_.marks(); }

  // inter::MeshHandler
  std::string judge_greeting(const std::string&, const std::string&) override { return {}; }
  void on_refused_by(const std::string&, const inter::LinkError&) override {}
  void on_peer_up(const std::string& peer, const std::string& via) override;
  void on_peer_down(const std::string& peer, const std::string&) override;
  void on_message(const std::string& peer, const std::string& message) override;
  void on_blob(const std::string& from, const inter::BlobId& id) override;

  // Actions of the protocol.
  void operator()(const SendMessage& action);
  void operator()(const PushBlob& action) { channel_->push_blob(action.peer, action.blob); }
  void operator()(const FetchBlob& action) { channel_->fetch_blob(action.peer, action.blob); }
  void operator()(const ForgoBlob& action) { channel_->forgo_blob(action.peer, action.blob); }
  void operator()(const RemoveBlob& action) { world_.release(name_, action.blob); }
  void operator()(const EndRun&) { ended_ = true; }
  void operator()(const SumShard& action);
  void operator()(const CheckSnapshot& action) { deliver(SnapshotChecked{action.snapshot, true}); }
  // Orders are the worker's. Nothing else is kept, as no process of a rehearsal is started twice;
  // saving takes its time.
  template <typename Other>
  void operator()(const Other& action) {
    if constexpr (std::invocable<RehearsalWorker&, const Other&>) worker_(action);
  }

 private:
  PersistentState disk() const;
  void deliver_cut(const Contribution& made);
  double share_of_payload(const inter::BlobId& blob) const;
  void deliver(const Event& event);
  void pump();
  double saving_s(const Action& action) const;
  void schedule_tick();

  World& world_;
  const RehearsalOptions& options_;
  std::string name_;
  RegionSpeed speed_;
  RehearsalWorker worker_;
  std::unique_ptr<inter::Channel> channel_;
  std::optional<RoundProtocol> protocol_;
  // What the coordinator has not come to yet, as it does one thing after the other and waits for
  // its disk.
  std::deque<Event> events_;
  std::deque<Action> actions_;
  bool saving_ = false;
  Time summing_until_{0};  // one shard after the other
  std::optional<Time> tick_at_;
  bool ended_ = false;
};

}  // namespace causeway::diloco::tuner
