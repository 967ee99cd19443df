// Runs a function on every rank of a region: each in a thread of its own, with its member of a real
// group.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "intra/collective/collective.h"
#include "tests/intra/temporary_directory.h"

namespace causeway::intra {

inline void on_ranks(std::size_t world, const std::function<void(Collective&)>& body) {
  const TemporaryDirectory directory;
  std::vector<std::thread> ranks;
  for (std::size_t rank = 0; rank < world; ++rank) {
    ranks.emplace_back([&, rank] {
      try {
        const auto group = make_collective({directory.path(), "test", rank, world});
        body(*group);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace causeway::intra
