// Loops over chunks where there is no OpenMP, as in the Python module: how many threads they start.
#include <gtest/gtest.h>

#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>

#include "compression/base/parallel.h"

namespace causeway::compression {
namespace {

std::size_t threads_of_a_loop() {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  first_failure(100 * kWorthAThread, [&](std::size_t) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
    return true;
  });
  return threads.size();
}

TEST(PlainThreads, AreAsManyAsTheProcessHasTimeForWhateverCoresAreInSight) {
  ::unsetenv("OMP_NUM_THREADS");  // read once, with the first loop
  EXPECT_EQ(threads_wanted(), allowed_core_count());
  for (const std::size_t usable : {1U, 3U, 5U}) {
    use_threads(usable);
    EXPECT_EQ(threads_wanted(), usable);
    EXPECT_EQ(threads_of_a_loop(), usable);
  }
}

}  // namespace
}  // namespace causeway::compression
