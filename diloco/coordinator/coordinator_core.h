// The coordinator behind its public face: the round protocol, and everything that carries out its
// actions. One thread.
//
//   coordinator.cc           life: ledger, spool, links, the clock, the end
//   coordinator_storage.cc   when the disk fails: no vote, but the worker goes on; when the spool
//                            is full
//   coordinator_links.cc     what other regions say
//   coordinator_workers.cc   what this region's worker says
//   coordinator_actions.cc   what the protocol wants done
#pragma once

#include <chrono>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <asio/steady_timer.hpp>
#include <asio/thread_pool.hpp>

#include "diloco/coordinator/coordinator.h"
#include "diloco/coordinator/coordinator_status.h"
#include "diloco/coordinator/greeting.h"
#include "diloco/coordinator/operator_door.h"
#include "diloco/log/ledger.h"
#include "diloco/round/round_protocol.h"
#include "diloco/worker/worker_server.h"
#include "inter/base/async.h"
#include "inter/tls/signature.h"

namespace causeway::diloco {

// Of the disk, not of the program: worth trying again when somebody has looked after it.
bool is_storage_failure(const std::system_error& error);

class Coordinator::Implementation : public inter::MeshHandler, public WorkerServerHandler {
 public:
  Implementation(asio::any_io_executor executor, CoordinatorOptions options)
      : executor_(executor),
        options_(std::move(options)),
        changed_(executor),
        tick_(executor),
        farewell_(executor),
        tasks_(executor) {}

  // Nothing: the storage failed and works again; another one of these is to begin anew.
  asio::awaitable<std::optional<Outcome>> run();
  void stop() { finish({130, "interrupted"}); }
  std::uint16_t listening_port() const { return listening_port_; }
  const CoordinatorOptions& options() const { return options_; }

  // inter::MeshHandler
  std::string judge_greeting(const std::string& peer, const std::string& greeting) override;
  std::string report() override { return files_->text(status()); }
  void on_refused_by(const std::string& peer, const std::string& reason) override;
  void on_peer_up(const std::string& peer) override;
  void on_peer_down(const std::string& peer, const std::string& reason) override;
  void on_message(const std::string& peer, const std::string& message) override;
  void on_blob(const std::string& from, const inter::BlobId& id) override;

  // WorkerServerHandler
  void on_gathered(const AttachRequest& rank_0, const std::vector<std::uint32_t>& missing) override;
  void on_worker_lost() override;
  void on_ready() override;
  void on_contribute(const Contribution& contribution, Descriptor payload) override;
  void on_applied(Round version, const Digest& state) override;
  void on_snapshot(Round version, const Digest& state, Descriptor file) override;
  void on_report(const Progress& progress) override;

 private:
  std::optional<Outcome> open_ledger();
  void found_run();
  void open_protocol();
  void refuse_anothers_directory() const;
  void open_links();
  void open_workers();
  std::map<std::string, inter::Endpoint> dialled(const Membership& membership) const;
  asio::awaitable<void> close();
  void write_last_status();
  asio::awaitable<void> pulse();
  asio::awaitable<void> say_goodbye();
  bool goodbye_is_over() const;
  void see_off();
  asio::awaitable<void> abstain();
  asio::awaitable<void> copy_snapshot(Applied holds, Descriptor file);
  asio::awaitable<void> store(Contribution contribution, Descriptor payload,
                              std::uint64_t gathering);
  void on_spooled(Contribution contribution);
  asio::any_io_executor thread_of(asio::thread_pool& own) const {
    return options_.copying ? options_.copying : own.get_executor();
  }
  void wait_for_room(const Contribution& contribution, std::uint64_t size_bytes);
  void look_for_room();
  void end_wait_for_room();
  std::string room_sentence() const;

  // Runs `body`; what it throws ends run() with the same exception.
  template <typename Body>
  void guard(Body&& body);
  void handle(const Event& event);
  void arm_tick();
  void finish(Outcome outcome);
  void add_applied_round(Round round, const Digest& state);
  void note_missing(const std::vector<std::uint32_t>& missing);
  void refused(const std::string& peer, const std::string& reason, bool by_the_run);
  void poll_progress();
  void tell_what_is_waited_for();
  std::string waiting_for() const;
  CoordinatorStatus status() const;

  void execute(const SendMessage& action);
  void execute(const PushBlob& action);
  void execute(const FetchBlob& action) { mesh_->fetch_blob(action.peer, action.blob); }
  void execute(const RemoveBlob& action);
  void execute(const SaveContributions& action);
  void execute(const SaveSnapshot& action);
  void execute(const SaveRaft& action);
  void execute(const AppendLedger& action);
  void execute(const UpdateMembers& action);
  void execute(const WelcomeWorker& action);
  void execute(const OrderTrain& action);
  void execute(const OrderContinue& action);
  void execute(const OrderCallBack&) { workers_->call_back(); }
  void execute(const OrderCollect& action);
  void execute(const OrderApply& action);
  void execute(const OrderRestore& action);
  void execute(const OrderFinish& action);
  void execute(const EndRun& action);
  void execute(const Note& action);

  asio::any_io_executor executor_;
  CoordinatorOptions options_;
  std::optional<inter::SigningKey> signing_key_;
  std::optional<Ledger> ledger_;
  std::optional<inter::Spool> spool_;
  std::optional<StatusFiles> files_;
  std::optional<RoundProtocol> protocol_;
  std::optional<WorkerServer> workers_;
  std::optional<OperatorDoor> operator_door_;
  std::optional<inter::Mesh> mesh_;
  std::uint16_t listening_port_ = 0;
  Greeting greeting_;
  Membership members_;                               // to whom there are links
  std::map<std::string, std::string> incarnations_;  // as greeted
  std::set<std::string> refusals_;                   // peers that this region and they refuse

  Progress progress_;
  std::uint64_t gatherings_ = 0;        // of workers, so far
  std::vector<std::uint32_t> missing_;  // ranks, when they attached last
  std::optional<Round> applying_;
  struct WaitsForRoom {
    Contribution contribution;  // whose payload the worker keeps
    std::uint64_t size_bytes = 0;
    bool worker_asks = false;  // what to do
  };
  std::optional<WaitsForRoom> waits_for_room_;  // in the spool
  std::chrono::steady_clock::time_point worker_heard_at_;
  std::optional<std::chrono::steady_clock::time_point> worker_lost_at_;  // since it attached last
  Round worker_version_ = 0;                                             // that it holds
  std::optional<OrderContinue> last_order_;  // to train, as one to go on
  std::string told_worker_;
  std::string logged_wait_;
  std::chrono::steady_clock::time_point wait_logged_at_;

  std::optional<Outcome> outcome_;
  std::exception_ptr failure_;
  std::string storage_failure_;  // from then on nothing is promised, and nobody is told anything
  bool closing_ = false;
  inter::Signal changed_;
  asio::steady_timer tick_;
  asio::steady_timer farewell_;  // to whoever was removed
  inter::TaskGroup tasks_;
  // No payload waits for a snapshot.
  asio::thread_pool payload_copies_{1}, snapshot_copies_{1};
};

template <typename Body>
void Coordinator::Implementation::guard(Body&& body) {
  try {
    body();
  } catch (const std::system_error& error) {
    if (is_storage_failure(error)) {
      if (storage_failure_.empty()) storage_failure_ = error.what();
    } else if (!failure_) {
      failure_ = std::current_exception();
    }
    changed_.notify();
  } catch (...) {
    if (!failure_) failure_ = std::current_exception();
    changed_.notify();
  }
}

}  // namespace causeway::diloco
