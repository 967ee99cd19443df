// This region's worker as its coordinator knows it: whether it is attached, what it is at, the
// state that it holds, and whether that state is the one that the run agreed on. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "diloco/log/messages.h"
#include "diloco/region/action.h"

namespace causeway::diloco {

class AttachedWorker {
 public:
  explicit AttachedWorker(Outbox& out) : out_(out) {}

  // ---- The session ----
  // `run_id`: of the run that its training state belongs to, if it has one.
  // `data`: of what all regions must read. `has_more`: as below.
  void attach(const Applied& holds, std::optional<std::string> run_id,
              const std::optional<DataDigest>& data = {}, NamedTensors tensors = {},
              bool has_more = false);
  // What its program trains, of the one that attached last; empty: it is `causeway worker`, whose
  // initial weights follow from the configuration.
  const NamedTensors& tensors() const { return tensors_; }
  // All bytes of it, since it attached.
  void read_data(const DataDigest& data);
  void lose() { session_.reset(); }
  const std::optional<DataDigest>& data() const { return data_; }  // of the one that attached last
  // It trained before all of its data was read, and no region was found to have read the same.
  bool data_is_unproven() const { return data_is_unproven_; }
  void prove_data() { data_is_unproven_ = false; }
  bool attached() const { return session_.has_value(); }
  bool has_attached() const { return has_attached_; }  // since this process began
  // False: its training state is another run's, and this region ends.
  bool belongs_to(const std::string& run_id);
  void welcome() { session_->welcomed = true; }
  bool welcomed() const { return attached() && session_->welcomed; }

  // ---- What it is at ----
  void ask(std::uint32_t steps = 0);  // what to do
  bool ready() const { return attached() && session_->ready; }
  void order(Action action);  // it is busy with it from here on
  // While there is no leader it goes on training, and may be called back.
  void order_to_continue(const OrderContinue& steps);
  void call_back();
  bool continuing() const { return attached() && session_->continuing; }
  // That it took since the version that it holds, contributed or not, when it asked last.
  std::uint32_t steps() const { return attached() ? session_->steps : 0; }
  // It may have done steps that nobody was told of, and that a record would drop.
  bool has_more() const { return attached() && session_->has_more; }
  void drop_more();  // they are told of, or lost
  void finish(const OrderFinish& last);
  bool told_to_finish() const { return told_to_finish_; }

  // ---- What it holds ----
  void hold(const Applied& holds);  // it applied a record or a snapshot
  // The newest word on what it holds.
  void correct_state(Round version, const Digest& state);
  void restore_finished(const Applied& finished) { applied_ = finished; }
  // Kept when the worker is lost; none before one was attached.
  const std::optional<Applied>& applied() const { return applied_; }
  // What it held when its state was found to be wrong; none: it is not doubted.
  const std::optional<Applied>& distrusted() const { return distrusted_; }
  // Its state is made again: from a snapshot that the run agreed on, and the payloads since.
  void distrust();
  // The versions after this round's were taken back: what it has of them, or is about to get, is
  // made again.
  void void_after(Round round);
  // That is how it always begins.
  void distrust_initial_state() { distrusted_ = applied_; }
  // Only its program has them: to make them again gives the same.
  bool brings_other_initial_values() const {
    return !tensors_.empty() && applied_ && applied_->version == 0;
  }
  // From a doubt until it holds that version again.
  bool heals() const;
  // A state is made again at most so often.
  bool healed_enough(Round version) const;

 private:
  struct Session {
    std::optional<std::string> run_id;
    bool welcomed = false;
    bool ready = false;
    bool continuing = false;
    bool has_more = false;
    std::uint32_t steps = 0;
  };

  Outbox& out_;
  std::optional<Session> session_;
  std::optional<DataDigest> data_;
  bool data_is_unproven_ = false;
  bool has_attached_ = false;
  NamedTensors tensors_;
  std::optional<Applied> applied_;
  std::optional<Applied> distrusted_;
  std::map<Round, int> heals_;  // by version: how often
  bool told_to_finish_ = false;
  std::optional<Round> voided_;  // since its last order: the round

  void doubt_if_void();
};

}  // namespace causeway::diloco
