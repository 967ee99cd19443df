// What NCCL's double refuses, and what it shows of a program that does not wait.
#include <cuda_runtime_api.h>

#include <chrono>
#include <latch>
#include <system_error>

#include <gtest/gtest.h>

#include "intra/base/error.h"
#include "intra/cuda/device/collective_nccl.h"
#include "intra/cuda/device/device.h"
#include "intra/cuda/device/nccl.h"
#include "tests/intra/collective/on_ranks.h"

namespace causeway::gpu_double {
namespace {

using intra::cuda::DeviceArray;
using intra::cuda::Event;
using intra::cuda::Stream;

// A group of one, and how it is told to go on.
class NcclDouble : public testing::Test {
 protected:
  void begin() {
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    ncclUniqueId id{};
    ASSERT_EQ(nccl_.get_unique_id(&id), ncclSuccess);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ASSERT_EQ(nccl_.init(&group_, 1, id, 0, &config), ncclInProgress);
  }
  bool is_in_progress() {
    ncclResult_t state = ncclSuccess;
    EXPECT_EQ(nccl_.async_error(group_, &state), ncclSuccess);
    EXPECT_TRUE(state == ncclSuccess || state == ncclInProgress);
    return state == ncclInProgress;
  }
  void form() {
    begin();
    while (is_in_progress()) {
    }
  }
  ncclResult_t sum() {
    return nccl_.all_reduce(from_.span().data(), to_.span().data(), 1, ncclFloat, ncclSum, group_,
                            stream_.get());
  }
  void leave() {
    ASSERT_EQ(nccl_.finalize(group_), ncclInProgress);
    while (is_in_progress()) {
    }
    ASSERT_EQ(nccl_.destroy(group_), ncclSuccess);
  }
  int groups() {
    int (*count)() = nullptr;
    nccl_.library.find("causewayNcclGroups", count);
    return count();
  }

  intra::cuda::Nccl nccl_;
  ncclComm_t group_ = nullptr;
  const DeviceArray<float> from_{1}, to_{1};
  const Stream stream_;
};
using NcclDoubleDeathTest = NcclDouble;

TEST_F(NcclDouble, AnEventThatIsRecordedWhileItIsInProgressComesTooEarly) {
  form();
  const float before = 7;
  intra::cuda::copy_bytes(&before, to_.span().data(), sizeof before, stream_);
  const auto sum_as_seen = [&](bool wait_first) {
    EXPECT_EQ(sum(), ncclInProgress);
    while (wait_first && is_in_progress()) {
    }
    const Event event;
    stream_.record(event);
    event.synchronize();
    const Stream other;
    float seen = 0;
    intra::cuda::copy_bytes(to_.span().data(), &seen, sizeof seen, other);
    while (is_in_progress()) {
    }
    stream_.synchronize();
    return seen;
  };
  EXPECT_EQ(sum_as_seen(false), 7);
  EXPECT_EQ(sum_as_seen(true), 0);
  leave();
}

TEST_F(NcclDoubleDeathTest, CallsOfAGroupAreMadeWhenItEnds) {
  form();
  EXPECT_EQ(nccl_.group_start(), ncclSuccess);
  EXPECT_EQ(sum(), ncclSuccess);
  EXPECT_EQ(nccl_.group_end(), ncclInProgress);
  EXPECT_EQ(nccl_.group_end(), ncclInvalidUsage);
  while (is_in_progress()) {
  }
  EXPECT_DEATH(nccl_.finalize(group_), "under way");
  stream_.synchronize();
  leave();
}

TEST_F(NcclDoubleDeathTest, AGroupThatHasNotFormedIsRefused) {
  begin();
  EXPECT_DEATH(sum(), "has not formed");
  while (is_in_progress()) {
  }
  leave();
}

TEST_F(NcclDoubleDeathTest, AGroupOfCallsThatIsNotEndedIsRefused) {
  form();
  EXPECT_DEATH(
      {
        nccl_.group_start();
        sum();
        is_in_progress();
      },
      "begun and not ended");
  leave();
}

TEST_F(NcclDoubleDeathTest, AMessageOfAnotherLengthIsRefused) {
  form();
  const auto exchange = [&](std::size_t received) {
    nccl_.group_start();
    nccl_.send(from_.span().data(), 1, ncclFloat, 0, group_, stream_.get());
    nccl_.receive(to_.span().data(), received, ncclFloat, 0, group_, stream_.get());
    nccl_.group_end();
    while (is_in_progress()) {
    }
    stream_.synchronize();
  };
  exchange(1);
  EXPECT_DEATH(exchange(0), "another length");
  leave();
}

TEST_F(NcclDoubleDeathTest, AMessageOutsideAGroupOfCallsIsRefused) {
  form();
  EXPECT_DEATH(nccl_.send(from_.span().data(), 1, ncclFloat, 0, group_, stream_.get()),
               "outside a group of calls");
  leave();
}

TEST_F(NcclDoubleDeathTest, AGroupThatIsNotFinalisedIsNotDestroyed) {
  form();
  EXPECT_DEATH(nccl_.destroy(group_), "not finalised");
  leave();
}

// Of two ranks one asks for nothing. Both leave: the one whose sum failed has aborted its group.
TEST_F(NcclDouble, ARankThatHangsIsAnErrorOfTheOtherAndNoGroupIsLeft) {
  const int before = groups();
  std::latch over(1);
  intra::on_ranks(2, [&](intra::Collective& hosts) {
    intra::cuda::use_device(static_cast<int>(hosts.rank()));
    const auto group = intra::cuda::make_nccl_collective(hosts, std::chrono::milliseconds(200));
    ASSERT_NE(group, nullptr);
    if (hosts.rank() == 1) return over.wait();
    const DeviceArray<float> values(4);
    try {
      group->all_reduce_sum(values.span());
      ADD_FAILURE() << "nobody else summed";
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), intra::Errc::collective);
    }
    over.count_down();
  });
  EXPECT_EQ(groups(), before);
}

}  // namespace
}  // namespace causeway::gpu_double
