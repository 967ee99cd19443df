#include "diloco/round/chase.h"

#include <algorithm>

namespace causeway::diloco {

void Chase::look(Round applied, Round version) {
  // A worker applies one at a time: it took a snapshot, or went on from an older state.
  const bool leapt = at_ && (applied < at_->applied || applied > at_->applied + 1);
  if (leapt && in_vain_ && applied > at_->applied)
    window_ = std::max(window_, std::min(2 * window_, kLongest * least_));
  if (leapt) stop();
  if (applied + least_ > version) window_ = least_;
  if (applied + window_ > version) return stop();
  if (!at_ || version < at_->version) at_ = At{.applied = applied, .version = version};
  if (applied == at_->applied) return;
  // A pause of the worker, or records that come all at once after an absence, do not decide alone.
  made_ += std::min(version - at_->version, window_ / 2 - 1);
  at_ = At{.applied = applied, .version = version};
  if (++applied_ < window_) return;
  in_vain_ = 2 * made_ >= applied_;
  applied_ = made_ = 0;
}

void Chase::stop() {
  at_.reset();
  applied_ = made_ = 0;
  in_vain_ = false;
}

void Chase::back_off() {
  stop();
  window_ *= 2;
}

}  // namespace causeway::diloco
