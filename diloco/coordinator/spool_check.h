// Looks once more at what lies in the spool before the worker gets it: a disk can change what it
// keeps, and what a peer said to be a snapshot can be anything. In a thread, so that no link waits
// for it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <asio/awaitable.hpp>
#include <asio/thread_pool.hpp>

#include "diloco/coordinator/coordinator_context.h"
#include "inter/base/async.h"

namespace causeway::diloco {

class SpoolCheck {
 public:
  // `lacking`: some of what was to be handed over was damaged, and is not here any more.
  SpoolCheck(CoordinatorContext context, std::function<void()> lacking);

  // Calls `order` once all blobs are known to be what they should be.
  using Order = std::function<void()>;
  void hand_over(std::vector<inter::BlobId> blobs, Order order);
  // Nothing of what is being looked at is handed over any more.
  void call_off() { ++handings_; }
  // Tells the protocol whether the snapshot is right.
  void carry_out(const CheckSnapshot& action);
  asio::awaitable<void> join() { return tasks_.join(); }

 private:
  asio::awaitable<void> check_and_hand_over(std::vector<inter::BlobId> blobs, Order order,
                                            std::uint64_t handing);
  asio::awaitable<void> check(Snapshot snapshot);
  asio::any_io_executor thread();

  CoordinatorContext context_;
  std::function<void()> lacking_;
  std::uint64_t handings_ = 0;  // so far; another one: void
  inter::TaskGroup tasks_;
  asio::thread_pool checks_{1};
};

}  // namespace causeway::diloco
