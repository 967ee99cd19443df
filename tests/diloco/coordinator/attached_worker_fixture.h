// A lone region's worker, as its coordinator sees it: what it would say comes by the handler.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <utility>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include "diloco/coordinator/worker_side.h"
#include "tests/diloco/coordinator/lone_region.h"

namespace causeway::diloco::testing {

inline void run_in(asio::io_context& loop, asio::awaitable<void> wait) {
  bool done = false;
  asio::co_spawn(loop, std::move(wait), [&](std::exception_ptr) { done = true; });
  loop.restart();
  while (!done) loop.run_one();
}

class AttachedWorkerFixture : public ::testing::Test {
 protected:
  void SetUp() override { region_.begin(); }

  void attach(const DataDigest& trained_on, const DataDigest& now) {
    AttachRequest rank_0;
    rank_0.region = "a";
    rank_0.data.of_region = now;
    rank_0.trained_on = trained_on;
    side_.on_gathered(rank_0, {});
  }
  void run(asio::awaitable<void> wait) { run_in(region_.loop_, std::move(wait)); }

  LoneRegion region_;
  WorkerSide side_{region_.context()};
  const DataDigest sample_{.sample = {1}};
  const DataDigest whole_{.sample = {1}, .whole = Digest{2}};
};

}  // namespace causeway::diloco::testing
