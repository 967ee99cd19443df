// One region of a rehearsal: its coordinator's protocol, and its worker.
#pragma once

#include <concepts>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "diloco/rehearsal/rehearsal.h"
#include "diloco/rehearsal/rehearsal_worker.h"
#include "diloco/round/round_protocol.h"

namespace causeway::diloco::tuner {

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
  void operator()(const RemoveBlob& action) { world_.release(name_, action.blob); }
  void operator()(const EndRun&) { ended_ = true; }
  void operator()(const CheckSnapshot& action) { deliver(SnapshotChecked{action.snapshot, true}); }
  // Orders are the worker's. Nothing else is kept, as no process of a rehearsal is started twice;
  // saving takes its time.
  template <typename Other>
  void operator()(const Other& action) {
    if constexpr (std::invocable<RehearsalWorker&, const Other&>) worker_(action);
  }

 private:
  PersistentState disk() const;
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
  std::optional<Time> tick_at_;
  bool ended_ = false;
};

}  // namespace causeway::diloco::tuner
