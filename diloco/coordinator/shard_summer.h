// Sums shards for a sharded round (diloco/round/summing.h), in threads, while everything else goes
// on.
#pragma once

#include "diloco/coordinator/coordinator_context.h"
#include "inter/base/async.h"

#include <asio/thread_pool.hpp>

namespace causeway::diloco {

class ShardSummer {
 public:
  explicit ShardSummer(CoordinatorContext context);

  void carry_out(const SumShard& action);
  asio::awaitable<void> join() { return tasks_.join(); }

 private:
  struct Work;
  asio::awaitable<void> sum(SumShard action);
  void finish(const SumShard& action, Work& work);

  CoordinatorContext context_;
  inter::TaskGroup tasks_;
  asio::thread_pool threads_;
};

}  // namespace causeway::diloco
