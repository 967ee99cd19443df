// A program that forks while it has a worker, as loaders of data do: the child has a copy of it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include "intra/worker/worker.h"
#include "tests/intra/temporary_directory.h"
#include "tests/intra/worker/scripted_coordinator.h"

namespace causeway {
namespace {

// Whether `work` is true in a child of this process.
bool in_a_child(const std::function<bool()>& work) {
  const ::pid_t child = ::fork();
  if (child == 0) ::_exit(work() ? 0 : 1);
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool is_refused(const std::function<void()>& call) try {
  call();
  return false;
} catch (const std::logic_error& error) {
  return std::string(error.what()).find("was forked from the one") != std::string::npos;
}

TEST(ForkedWorker, IsNotCalledAndMayBeDestroyedWhileTheFirstGoesOn) {
  const intra::TemporaryDirectory directory;
  Coordinator coordinator(directory.path());
  coordinator.follow({train(0), coordinator.apply_all(), finish(1)});
  std::vector<float> params = kInitial;
  std::optional<Worker> worker(std::in_place, settings(directory), params);
  EXPECT_TRUE(in_a_child([&] { return is_refused([&] { worker->next(params); }); }));
  ASSERT_TRUE(worker->next(params));
  EXPECT_TRUE(in_a_child([&] { return is_refused([&] { worker->called_back(); }); }));
  EXPECT_TRUE(in_a_child([&] { return is_refused([&] { worker->done(params, 4, 0.1); }); }));
  EXPECT_TRUE(in_a_child([&] { return is_refused([&] { worker->validated(0.1); }); }));
  EXPECT_TRUE(in_a_child([&] {
    worker.reset();
    return true;
  }));
  add(params, 0.3F);
  worker->done(params, 4, 0.1);
  EXPECT_FALSE(worker->next(params));
  EXPECT_EQ(coordinator.contributions().size(), 1U);
}

}  // namespace
}  // namespace causeway
