#include "diloco/round/chase.h"

namespace causeway::diloco {

void Chase::look(Round applied, Round version) {
  if (applied + window_ > version) return stop();
  if (!since_ || applied < since_->applied || version < since_->version)
    since_ = Since{.applied = applied, .version = version};
  const Round done = applied - since_->applied, made = version - since_->version;
  if (done < window_) return;
  in_vain_ = 2 * made >= done;
  since_ = Since{.applied = applied, .version = version};
}

void Chase::stop() {
  since_.reset();
  in_vain_ = false;
}

}  // namespace causeway::diloco
