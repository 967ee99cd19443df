// The C API against a real worker socket, as tests/intra/worker has the C++ one.
#include "intra/c_api/causeway.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "intra/worker/worker.h"
#include "tests/intra/temporary_directory.h"
#include "tests/intra/worker/scripted_coordinator.h"

namespace causeway {
namespace {

using testing::HasSubstr;

// What settings() has, for C.
struct CTrainer {
  explicit CTrainer(const intra::TemporaryDirectory& directory) : path(directory.path().string()) {}
  ~CTrainer() { causeway_worker_close(worker); }

  int open() { return causeway_worker_open(&settings, tensors.data(), tensors.size(), &worker); }
  int next() { return causeway_worker_next(worker, tensors.data(), tensors.size(), &steps); }
  int done(std::uint32_t taken) {
    return causeway_worker_done(worker, tensors.data(), tensors.size(), taken, 0.1);
  }

  std::string path;
  std::vector<float> params = kInitial;
  std::int64_t bias_shape[1] = {3}, weight_shape[2] = {2, 2};
  std::array<causeway_tensor, 2> tensors{
      {{sizeof(causeway_tensor), "bias", params.data(), 1, bias_shape, nullptr},
       {sizeof(causeway_tensor), "weight", params.data() + 3, 2, weight_shape, nullptr}}};
  causeway_settings settings{.struct_size = sizeof settings,
                             .region = "eu",
                             .directory = path.c_str(),
                             .coordinator = nullptr,
                             .certificates = nullptr,
                             .samples_per_step = 10,
                             .tokens_per_step = 100,
                             .save_rounds = 0,
                             .validates = 1,
                             .keep_waiting = nullptr,
                             .context = nullptr};
  causeway_steps steps{.struct_size = sizeof steps,
                       .round = 0,
                       .first_sample = 0,
                       .schedule_step = 0,
                       .pass = 0,
                       .pass_begin = 0,
                       .part = 0,
                       .parts = 0,
                       .validation_samples = 0,
                       .count = 0,
                       .reserved = 0,
                       .run_steps = 0};
  causeway_worker* worker = nullptr;
};

std::deque<Coordinator::Tell> two_rounds(Coordinator& coordinator) {
  return {train(0, 70), coordinator.apply_all(), train(1, 110), coordinator.apply_all(), finish(2)};
}

TEST(CApi, LeadsToTheSameBitsAsTheCppApi) {
  const intra::TemporaryDirectory here, there;
  Coordinator for_c(here.path(), "train.steps = 400\n"), for_cpp(there.path());
  for_c.follow(two_rounds(for_c));
  for_cpp.follow(two_rounds(for_cpp));
  CTrainer trainer(here);
  ASSERT_EQ(trainer.open(), CAUSEWAY_OK) << causeway_last_error();
  std::vector<float> params = kInitial;
  Worker worker(settings(there), params);
  for (std::uint64_t round = 0; round < 2; ++round) {
    const auto steps = worker.next(params);
    ASSERT_TRUE(steps);
    ASSERT_EQ(trainer.next(), CAUSEWAY_OK) << causeway_last_error();
    EXPECT_EQ(trainer.steps.round, round);
    EXPECT_EQ(trainer.steps.count, steps->count);
    EXPECT_EQ(trainer.steps.first_sample, steps->first_sample);
    EXPECT_EQ(trainer.steps.schedule_step, steps->schedule_step);
    EXPECT_EQ(trainer.steps.parts, steps->parts);
    EXPECT_EQ(trainer.steps.run_steps, 400U);
    EXPECT_EQ(trainer.params, params);
    int called_back = 1;
    EXPECT_EQ(causeway_worker_called_back(trainer.worker, &called_back), CAUSEWAY_OK);
    EXPECT_EQ(called_back, 0);
    add(trainer.params, 0.3F);
    add(params, 0.3F);
    worker.done(params, 4, 0.1);
    ASSERT_EQ(trainer.done(4), CAUSEWAY_OK) << causeway_last_error();
  }
  EXPECT_FALSE(worker.next(params));
  EXPECT_EQ(trainer.next(), CAUSEWAY_RUN_OVER);
  EXPECT_EQ(trainer.params, params);
  const auto made = for_c.contributions(), wanted = for_cpp.contributions();
  ASSERT_EQ(made.size(), 2);
  for (std::size_t i = 0; i < made.size(); ++i) {
    EXPECT_EQ(made[i].payload, wanted[i].payload);
    EXPECT_EQ(made[i].data_cursor, wanted[i].data_cursor);
    EXPECT_EQ(made[i].tokens, wanted[i].tokens);
  }
}

TEST(CApi, AProgramThatWasBuiltBeforeAStructGrewHasWhatItKnows) {
  const intra::TemporaryDirectory directory;
  Coordinator coordinator(directory.path(), "train.steps = 400\n");
  coordinator.follow({train(0), coordinator.apply_all(), finish(1)});
  CTrainer trainer(directory);
  ASSERT_EQ(trainer.open(), CAUSEWAY_OK) << causeway_last_error();
  trainer.steps.struct_size = offsetof(causeway_steps, run_steps);
  trainer.steps.run_steps = 7;  // of whatever lies there
  ASSERT_EQ(trainer.next(), CAUSEWAY_OK) << causeway_last_error();
  EXPECT_EQ(trainer.steps.struct_size, offsetof(causeway_steps, run_steps));
  EXPECT_EQ(trainer.steps.count, 4U);
  EXPECT_EQ(trainer.steps.run_steps, 7U);
  ASSERT_EQ(trainer.done(4), CAUSEWAY_OK) << causeway_last_error();
  EXPECT_EQ(trainer.next(), CAUSEWAY_RUN_OVER) << causeway_last_error();
  EXPECT_EQ(trainer.steps.run_steps, 7U);
}

TEST(CApi, EvaluatesWhenItIsAskedTo) {
  const intra::TemporaryDirectory directory;
  Coordinator coordinator(directory.path(), "sync.k = \"auto\"\nsync.held_out_sequences = 16\n");
  coordinator.follow(two_rounds(coordinator));
  CTrainer trainer(directory);
  ASSERT_EQ(trainer.open(), CAUSEWAY_OK) << causeway_last_error();
  for (int status = trainer.next(); status != CAUSEWAY_RUN_OVER; status = trainer.next()) {
    ASSERT_EQ(status, CAUSEWAY_OK) << causeway_last_error();
    if (trainer.steps.validation_samples == 0) {
      EXPECT_EQ(causeway_worker_validated(trainer.worker, 1), CAUSEWAY_WRONG_CALL);
      EXPECT_THAT(causeway_last_error(), HasSubstr("needs next() to ask"));
      EXPECT_EQ(trainer.done(4), CAUSEWAY_OK);
      continue;
    }
    EXPECT_EQ(trainer.steps.validation_samples, 16);
    EXPECT_EQ(causeway_worker_validated(trainer.worker, 2.5), CAUSEWAY_OK);
  }
  EXPECT_EQ(coordinator.contributions().at(1).held_out_loss, 2.5);
}

TEST(CApi, WrongCallsLoseNothing) {
  const intra::TemporaryDirectory directory;
  Coordinator coordinator(directory.path());
  coordinator.follow({train(0), coordinator.apply_all(), finish(1)});
  CTrainer trainer(directory);
  ASSERT_EQ(trainer.open(), CAUSEWAY_OK) << causeway_last_error();
  trainer.steps.struct_size = 8;
  EXPECT_EQ(trainer.next(), CAUSEWAY_WRONG_CALL);
  EXPECT_THAT(causeway_last_error(), HasSubstr("steps.struct_size is 8: set it to sizeof"));
  trainer.steps.struct_size = sizeof trainer.steps;
  EXPECT_EQ(causeway_worker_next(trainer.worker, trainer.tensors.data(), 1, &trainer.steps),
            CAUSEWAY_WRONG_CALL);
  EXPECT_THAT(causeway_last_error(), HasSubstr("1 parameter tensors where the worker was made"));
  EXPECT_EQ(causeway_worker_called_back(trainer.worker, nullptr), CAUSEWAY_WRONG_CALL);
  ASSERT_EQ(trainer.next(), CAUSEWAY_OK) << causeway_last_error();
  trainer.weight_shape[1] = 3;
  EXPECT_EQ(trainer.done(4), CAUSEWAY_WRONG_CALL);
  EXPECT_THAT(causeway_last_error(),
              HasSubstr("its shape is 2 x 3 where the worker was made with 2 x 2"));
  trainer.weight_shape[1] = 2;
  EXPECT_EQ(trainer.done(5), CAUSEWAY_WRONG_CALL);
  EXPECT_EQ(trainer.done(4), CAUSEWAY_OK) << causeway_last_error();
  EXPECT_EQ(trainer.next(), CAUSEWAY_RUN_OVER);
  EXPECT_EQ(coordinator.contributions().size(), 1);
}

// ---- Failures have a status and a text, and nothing is thrown ----

TEST(CApi, ARecordOfAnotherRunIsRefused) {
  const intra::TemporaryDirectory directory;
  Coordinator coordinator(directory.path());
  coordinator.follow({train(0), coordinator.apply_all("another")});
  CTrainer trainer(directory);
  ASSERT_EQ(trainer.open(), CAUSEWAY_OK) << causeway_last_error();
  ASSERT_EQ(trainer.next(), CAUSEWAY_OK);
  ASSERT_EQ(trainer.done(4), CAUSEWAY_OK);
  EXPECT_EQ(trainer.next(), CAUSEWAY_REFUSED);
  EXPECT_THAT(causeway_last_error(), HasSubstr("run another"));
}

TEST(CApi, AnotherRegionIsRefused) {
  const intra::TemporaryDirectory directory;
  Coordinator coordinator(directory.path());
  CTrainer trainer(directory);
  trainer.settings.region = "us";
  EXPECT_EQ(trainer.open(), CAUSEWAY_REFUSED);
  EXPECT_THAT(causeway_last_error(), HasSubstr("this coordinator expects 1 workers of eu"));
  EXPECT_EQ(trainer.worker, nullptr);
}

TEST(CApi, AStateOfOtherTensorsIsNotUsed) {
  const intra::TemporaryDirectory directory;
  {
    Coordinator coordinator(directory.path());
    coordinator.follow({finish(0)});
    CTrainer trainer(directory);
    ASSERT_EQ(trainer.open(), CAUSEWAY_OK) << causeway_last_error();
    ASSERT_EQ(trainer.next(), CAUSEWAY_RUN_OVER) << causeway_last_error();
  }
  CTrainer trainer(directory);
  trainer.tensors[0].name = "other";
  EXPECT_EQ(trainer.open(), CAUSEWAY_BAD_STATE);
  EXPECT_THAT(causeway_last_error(), HasSubstr("state.safetensors"));
}

TEST(CApi, ACallbackThatThrowsIsAFailure) {
  const intra::TemporaryDirectory directory;
  CTrainer trainer(directory);
  trainer.settings.keep_waiting = [](void*, const char*) -> int { throw std::runtime_error("I"); };
  EXPECT_EQ(trainer.open(), CAUSEWAY_FAILED);
  EXPECT_STREQ(causeway_last_error(), "I");
  trainer.settings.keep_waiting = [](void*, const char*) -> int { throw 7; };
  EXPECT_EQ(trainer.open(), CAUSEWAY_FAILED);
}

// This program has a copy of everything that is in the library.
TEST(CApi, TheSharedLibraryIsLoadedBesideTheStaticOne) {
  void* const library = ::dlopen(CAUSEWAY_SHARED, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  const auto version =
      reinterpret_cast<decltype(&causeway_version)>(::dlsym(library, "causeway_version"));
  ASSERT_NE(version, nullptr);
  EXPECT_NE(version, &causeway_version);
  EXPECT_STREQ(version(), causeway_version());
  EXPECT_EQ(::dlclose(library), 0);
}

}  // namespace
}  // namespace causeway
