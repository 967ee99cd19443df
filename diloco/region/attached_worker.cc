#include "diloco/region/attached_worker.h"

#include <utility>

#include <fmt/format.h>

namespace causeway::diloco {
namespace {

// More than once, as without a majority the right state is doubted as well, and stale claims about
// it may still go around.
constexpr int kHealsMax = 3;

}  // namespace

// ---- The session ----

void AttachedWorker::attach(const Applied& holds, std::optional<std::string> run_id,
                            const std::optional<DataDigest>& data, NamedTensors tensors,
                            bool has_more) {
  session_ = Session{.run_id = std::move(run_id), .has_more = has_more};
  has_attached_ = true;
  voided_.reset();
  data_ = data;
  data_is_unproven_ = data && !data->whole;
  tensors_ = std::move(tensors);
  applied_ = holds;
}

void AttachedWorker::read_data(const DataDigest& data) {
  data_ = data;
}

bool AttachedWorker::belongs_to(const std::string& run_id) {
  if (!session_->run_id || *session_->run_id == run_id) return true;
  out_.end(4, "the worker's training state belongs to run " + *session_->run_id +
                  ", but this is run " + run_id +
                  ": delete the region's training states, or use another directory");
  return false;
}

// ---- What it is at ----

void AttachedWorker::ask(std::uint32_t steps) {
  if (!session_) return;
  session_->steps = steps;
  session_->ready = true;
  session_->continuing = false;
}

void AttachedWorker::order(Action action) {
  out_.push(std::move(action));
  session_->ready = false;
  voided_.reset();
}

void AttachedWorker::order_to_continue(const OrderContinue& steps) {
  order(steps);
  session_->has_more = session_->continuing = true;
}

void AttachedWorker::call_back() {
  out_.push(OrderCallBack{});
  session_->continuing = false;
}

void AttachedWorker::drop_more() {
  if (session_) session_->has_more = false;
}

void AttachedWorker::finish(const OrderFinish& last) {
  order(last);
  told_to_finish_ = true;
}

// ---- What it holds ----

void AttachedWorker::hold(const Applied& holds) {
  applied_ = holds;
  distrusted_.reset();
  doubt_if_void();
  drop_more();
}

void AttachedWorker::correct_state(Round version, const Digest& state) {
  if (applied_ && applied_->version == version) applied_->state = state;
}

void AttachedWorker::void_after(Round round) {
  voided_ = round;
  told_to_finish_ = false;
  doubt_if_void();
  if (ready() || !attached()) voided_.reset();
}

void AttachedWorker::doubt_if_void() {
  if (!voided_ || !applied_ || applied_->version <= *voided_ || distrusted_ == applied_) return;
  distrusted_ = applied_;
  out_.note(
      Note::Severity::warning,
      fmt::format("this region's state of version {} holds a contribution that was taken out of "
                  "round {}, as nobody else could get its payload: it takes a snapshot and replays",
                  applied_->version, *voided_));
}

bool AttachedWorker::heals() const {
  if (distrusted_) return true;
  return applied_ && !heals_.empty() && applied_->version < heals_.rbegin()->first;
}

void AttachedWorker::distrust() {
  if (distrusted_ == applied_) return;
  if (brings_other_initial_values()) {
    distrusted_ = applied_;
    return out_.note(Note::Severity::warning,
                     "the initial values of this region's program are not those that the run began "
                     "with (does it set its seed?): it waits for a snapshot of the others and "
                     "takes that");
  }
  const std::string which = fmt::format(
      "this region's state of version {} is not the one that the other regions agreed on",
      applied_->version);
  if (++heals_[applied_->version] > kHealsMax) {
    return out_.end(
        4, which +
               ", and making it again from a snapshot gave the same: this region computes "
               "something else than the regions that made these rounds. If its settings or its "
               "program changed (its log names each setting that did), put back what was before. "
               "Otherwise this machine fails: do not let it contribute");
  }
  distrusted_ = applied_;
  out_.note(Note::Severity::error, which + ": it stops contributing, takes a snapshot and replays");
}

bool AttachedWorker::healed_enough(Round version) const {
  const auto found = heals_.find(version);
  return found != heals_.end() && found->second == kHealsMax;
}

}  // namespace causeway::diloco
