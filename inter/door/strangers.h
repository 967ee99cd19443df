// Connections that have not proved yet that they are a peer's. They cost memory and sockets, so
// there is a limit; those that were refused already and only have yet to close count as well, and
// are the first to go. Internal to inter.
#pragma once

#include <algorithm>
#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "inter/base/error.h"

namespace causeway::inter {

// A visitor has `std::string remote_host()`, and `close(code, reason)`, after which it leaves.
template <typename Visitor>
class Strangers {
 public:
  using Pointer = std::shared_ptr<Visitor>;

  explicit Strangers(std::size_t max) : max_(max) {}

  // Closes another one if there are too many. Somebody who is expected is closed only for others
  // who are.
  void enter(const Pointer& visitor, bool expected = false) {
    (expected ? expected_ : waiting_).push_back(visitor);
    make_room();
  }
  // It was told why, and is waited for to close.
  void refused(const Pointer& visitor) {
    leave(visitor);
    refused_.push_back(visitor);
    make_room();
  }
  void leave(const Pointer& visitor) {
    expected_.remove(visitor);
    waiting_.remove(visitor);
    refused_.remove(visitor);
  }

 private:
  // The oldest from the address that has most of them: a crowd from one address makes room for
  // itself and keeps nobody out who comes from elsewhere.
  static Pointer least_welcome(const std::list<Pointer>& waiting) {
    std::map<std::string, std::size_t> counts;
    for (const Pointer& visitor : waiting) ++counts[visitor->remote_host()];
    return *std::max_element(waiting.begin(), waiting.end(),
                             [&](const Pointer& a, const Pointer& b) {
                               return counts[a->remote_host()] < counts[b->remote_host()];
                             });
  }

  void make_room() {
    if (expected_.size() + waiting_.size() + refused_.size() <= max_) return;
    const Pointer leaving = !refused_.empty()   ? refused_.front()
                            : !waiting_.empty() ? least_welcome(waiting_)
                                                : least_welcome(expected_);
    leave(leaving);
    leaving->close(Errc::refused, "too many unauthenticated peers wait for their handshake");
  }

  std::size_t max_;
  std::list<Pointer> expected_, waiting_, refused_;  // oldest first
};

}  // namespace causeway::inter
