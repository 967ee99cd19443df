// One region of a rehearsal: its coordinator's protocol and its worker's count of steps.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "diloco/rehearsal/rehearsal.h"
#include "diloco/round/round_protocol.h"

namespace causeway::diloco::tuner {

class RehearsalRegion : public inter::MeshHandler {
 public:
  RehearsalRegion(World& world, const RehearsalOptions& options, std::string name);
  ~RehearsalRegion() override;

  void start();
  void poll();
  Round version() const { return holds_.version; }
  bool ended() const { return ended_; }
  // When version v + 1 was applied, and the compute done by then.
  struct Mark {
    Time at{0};
    double compute_s = 0;
    std::size_t participants = 0;  // listed in their round
  };
  const std::vector<Mark>& marks() const { return marks_; }

  // inter::MeshHandler
  std::string judge_greeting(const std::string&, const std::string&) override { return {}; }
  void on_refused_by(const std::string&, const std::string&) override {}
  void on_peer_up(const std::string& peer) override;
  void on_peer_down(const std::string& peer, const std::string&) override;
  void on_message(const std::string& peer, const std::string& message) override;
  void on_blob(const std::string& from, const inter::BlobId& id) override;

  // Actions of the protocol.
  void operator()(const SendMessage& action);
  void operator()(const PushBlob& action) { channel_->push_blob(action.peer, action.blob); }
  void operator()(const FetchBlob& action) { channel_->fetch_blob(action.peer, action.blob); }
  void operator()(const RemoveBlob& action) { world_.release(name_, action.blob); }
  void operator()(const WelcomeWorker&);
  void operator()(const OrderTrain& order);
  void operator()(const OrderContinue& order);
  void operator()(const OrderCallBack&);
  void operator()(const OrderCollect& order);
  void operator()(const OrderApply& order);
  void operator()(const OrderRestore& order);
  void operator()(const OrderFinish&);
  void operator()(const EndRun&) { ended_ = true; }
  // Nothing is kept, as no process of a rehearsal is started twice; saving takes its time.
  template <typename Other>
  void operator()(const Other&) {}

 private:
  bool founds() const { return name_ == options_.founder; }
  PersistentState disk() const;
  void deliver(const Event& event);
  void pump();
  double saving_s(const Action& action) const;
  void schedule_tick();
  void later(double seconds, std::function<void()> event);
  void ready_soon();

  void compute_to(std::uint64_t step, std::function<void()> then);
  double steps_s(std::uint64_t count);
  double part(double whole_s) const { return whole_s / fragments(); }
  double fragments() const;
  void contribute(Round round, std::uint32_t part, std::uint64_t steps);
  void settle();
  void apply();
  void offer_snapshot();

  World& world_;
  const RehearsalOptions& options_;
  std::string name_;
  RegionSpeed speed_;
  std::mt19937_64 chance_;
  std::unique_ptr<inter::Channel> channel_;
  std::optional<RoundProtocol> protocol_;
  // What the coordinator has not come to yet, as it does one thing after the other and waits for
  // its disk.
  std::deque<Event> events_;
  std::deque<Action> actions_;
  bool saving_ = false;
  std::optional<Time> tick_at_;
  Applied holds_;
  bool ended_ = false;

  // The worker.
  std::uint64_t steps_ = 0, cursor_ = 0;
  double compute_s_ = 0;
  bool busy_ = false;  // has not come to where it needs the outcome of what it contributes
  std::optional<CommitRecord> record_;
  bool continuing_ = false;
  std::uint64_t extra_steps_ = 0;  // since it contributed, that nobody was told of
  std::vector<Mark> marks_;
};

}  // namespace causeway::diloco::tuner
