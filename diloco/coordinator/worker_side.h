// This region's worker, as its coordinator sees it: what it is told, what it says, and what it was
// last seen to hold.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <asio/awaitable.hpp>

#include "diloco/coordinator/contribution_intake.h"
#include "diloco/coordinator/coordinator_context.h"
#include "diloco/coordinator/spool_check.h"
#include "diloco/coordinator/worker_farewell.h"
#include "diloco/coordinator/worker_silence.h"
#include "diloco/worker/worker_server.h"

namespace causeway::diloco {

class WorkerSide : public WorkerServerHandler {
 public:
  explicit WorkerSide(CoordinatorContext context);

  // The socket that ranks attach to. `listening`: of this object, before. Throws std::system_error.
  void open(Descriptor listening = {});
  // Ends every session and opens anew: the worker may wait for something that will not come.
  asio::awaitable<void> reopen();
  asio::awaitable<void> stop();

  const Progress& progress() const { return seen_.progress; }
  bool is_attached() const { return seen_.is_attached; }
  // Ranks: those that the others go on without; all while no worker is attached.
  std::vector<std::uint32_t> missing() const;
  // When it reported last; none: it has not since it attached last.
  const std::optional<double>& reported_unix_s() const { return reported_unix_s_; }
  // Every second or more often, while the run goes on.
  void look_for_silence(std::chrono::steady_clock::time_point now);
  // What is waited for while it says nothing for long; empty: it speaks.
  std::string silence() const;
  std::uint64_t silent_s() const;  // however short
  ContributionIntake& intake() { return intake_; }
  const ContributionIntake& intake() const { return intake_; }
  WorkerFarewell& farewell() { return farewell_; }
  void tell_what_is_waited_for(const std::string& what);  // empty: nothing

  // Once there is a log: of a joiner's run it is a single word so far which one it is, and the
  // worker keeps what it is told.
  void carry_out(const WelcomeWorker& action);
  void on_log();
  bool welcomes_later() const { return welcome_.has_value(); }
  void carry_out(const OrderTrain& action);
  void carry_out(const OrderContinue& action);
  void carry_out(const OrderCallBack&) { server_->call_back(); }
  void carry_out(const OrderCollect& action);
  void carry_out(const OrderApply& action);
  void carry_out(const OrderRestore& action);
  void carry_out(const OrderFinish& action);
  void carry_out(const CheckSnapshot& action) { check_.carry_out(action); }

  // WorkerServerHandler
  std::string objection(const AttachRequest& request) override;
  void on_gathered(const AttachRequest& rank_0, const std::vector<std::uint32_t>& missing) override;
  void on_worker_lost() override;
  void on_ready(std::uint32_t steps) override;
  void on_contribute(const Contribution& contribution, Descriptor payload) override;
  void on_applied(Round version, const Digest& state) override;
  void on_snapshot(Round version, const Digest& state, Descriptor file) override;
  void on_report(const Progress& progress) override;
  void on_data_read(const DataDigests& data) override;

 private:
  void look_at_model(const AttachRequest& rank_0);
  bool lacks_room(Round round);
  void train_on();
  std::string speaker() const;
  void note_missing(const std::vector<std::uint32_t>& missing);
  void note_other_data(const std::optional<DataDigest>& now);
  void add_applied_round(Round round, const Digest& state);

  CoordinatorContext context_;
  std::optional<WorkerServer> server_;
  ContributionIntake intake_;
  WorkerSeen seen_;
  std::optional<double> reported_unix_s_;
  std::vector<std::uint32_t> missing_;    // ranks, when they attached last
  std::optional<DataDigest> trained_on_;  // its state, before it attached
  std::optional<Round> applying_;
  std::uint32_t steps_ = 0;                    // since what it holds, when it asked last
  std::string told_;                           // that it waits for
  std::optional<WelcomeWorker> welcome_ = {};  // that it is to get
  std::string no_room_ = {};                   // for the model of what attached last: what to set
  WorkerSilence silence_;
  SpoolCheck check_;
  WorkerFarewell farewell_;
};

}  // namespace causeway::diloco
