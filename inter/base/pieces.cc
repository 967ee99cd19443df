#include "inter/base/pieces.h"

#include <atomic>
#include <future>

namespace causeway::inter {

void take_turns(std::size_t count,
                const std::function<void(std::size_t piece, std::size_t thread)>& work) {
  std::atomic<std::size_t> next = 0;
  const auto run = [&](std::size_t thread) {
    for (std::size_t piece = 0; (piece = next++) < count;) {
      try {
        work(piece, thread);
      } catch (...) {
        next = count;
        throw;
      }
    }
  };
  // Where no more threads are allowed, it is done when it is waited for, and nothing is left then.
  auto other = std::async(std::launch::async | std::launch::deferred, run, 1);
  run(0);
  other.get();
}

}  // namespace causeway::inter
