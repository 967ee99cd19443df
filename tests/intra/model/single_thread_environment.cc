// These models are far too small for threads, and the tests run beside each other: one thread each,
// except where a test is about threads.
#include <gtest/gtest.h>
#include <omp.h>

namespace {

class SingleThread : public testing::Environment {
  void SetUp() override { omp_set_num_threads(1); }
};

const auto* const kEnvironment = testing::AddGlobalTestEnvironment(new SingleThread);

}  // namespace
