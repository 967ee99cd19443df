// Sums shards for a sharded round (diloco/round/summing.h), in threads, while everything else goes
// on.
#pragma once

#include "diloco/coordinator/coordinator_context.h"
#include "diloco/coordinator/spool_copy.h"
#include "diloco/files/sealed_bytes.h"
#include "inter/base/async.h"

#include <memory>

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
  asio::awaitable<void> make(const SumShard& action, std::shared_ptr<Work> work);
  asio::awaitable<Copied> store(const SealedBytes& sum, const Digest& draft);
  void finish(const SumShard& action, Work& work);

  CoordinatorContext context_;
  inter::TaskGroup tasks_;
  asio::thread_pool threads_;
  asio::any_io_executor thread_;
};

}  // namespace causeway::diloco
