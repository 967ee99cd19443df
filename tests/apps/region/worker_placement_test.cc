#include "apps/run/region/worker_placement.h"

#include <gtest/gtest.h>

#include "apps/run/region/region_files.h"
#include "tests/apps/temporary.h"

namespace causeway::run {
namespace {

// A host of two nodes with four cores each; a GPU and an interface at the second.
class WorkerPlacements : public ::testing::Test {
 protected:
  WorkerPlacements() {
    write("devices/system/node/node0/cpulist", "0-3\n");
    write("devices/system/node/node1/cpulist", "4-7\n");
    write("devices/system/node/possible", "0-1\n");
    write("bus/pci/devices/0000:1b:00.0/numa_node", "1\n");
    write("bus/pci/devices/0000:2c:00.0/numa_node", "-1\n");
    write("class/net/fast0/device/numa_node", "1\n");
  }
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((sys_ / name).parent_path());
    write_text_file(sys_ / name, text);
  }
  WorkerPlacement place(const WorkerSeat& seat, bool bind = true) const {
    return place_worker(sys_, all_, seat, bind);
  }

  const TemporaryDirectory directory_;
  const std::filesystem::path sys_ = directory_.path() / "sys";
  const Cores all_{0, 1, 2, 3, 4, 5, 6, 7};
};

TEST_F(WorkerPlacements, AreAtTheNodeOfTheGpu) {
  const auto placement = place({.gpu = "0000:1b:00.0", .network = "fast0"});
  EXPECT_EQ(placement.cores, (Cores{4, 5, 6, 7}));
  EXPECT_EQ(placement.text,
            "cores 4-7 (NUMA node 1), GPU 0000:1b:00.0 (NUMA node 1), network fast0 (NUMA node 1)");
}

TEST_F(WorkerPlacements, OfRanksWithoutGpuTakeTurns) {
  EXPECT_EQ(place({.local_rank = 0, .local_world = 3}).cores, (Cores{0, 1, 2, 3}));
  EXPECT_EQ(place({.local_rank = 1, .local_world = 3}).cores, (Cores{4, 5, 6, 7}));
  EXPECT_EQ(place({.local_rank = 2, .local_world = 3}).cores, (Cores{0, 1, 2, 3}));
}

TEST_F(WorkerPlacements, AreLeftAloneWhereBindingWouldWasteANodeOrWasDoneByOthers) {
  EXPECT_TRUE(place({.local_rank = 0, .local_world = 1}).cores.empty());
  EXPECT_EQ(place({.local_rank = 0, .local_world = 1}).text, "cores 0-7, of 2 NUMA nodes");
  EXPECT_TRUE(place({.gpu = "0000:2c:00.0"}).cores.empty());
  EXPECT_TRUE(place({.gpu = "0000:1b:00.0"}, false).cores.empty());
  const auto bound = place_worker(sys_, {1, 2}, {.gpu = "0000:1b:00.0"}, true);
  EXPECT_TRUE(bound.cores.empty());
  EXPECT_EQ(bound.text, "cores 1-2, of 2 NUMA nodes, GPU 0000:1b:00.0 (NUMA node 1)");
}

TEST_F(WorkerPlacements, KeepWithinWhatTheProcessMayUse) {
  EXPECT_EQ(place_worker(sys_, {1, 2, 5}, {.gpu = "0000:1b:00.0"}, true).cores, (Cores{5}));
}

TEST(WorkerPlacementsOfAHostOf, OneNodeChangeNothing) {
  const TemporaryDirectory nothing;
  const auto placement = place_worker(nothing.path(), {0, 1}, {}, true);
  EXPECT_TRUE(placement.cores.empty());
  EXPECT_EQ(placement.text, "cores 0-1");
}

TEST(CoreLists, AreReadAsTheKernelWritesThem) {
  EXPECT_EQ(parse_cores("0-2,8"), (Cores{0, 1, 2, 8}));
  EXPECT_EQ(to_string(Cores{0, 1, 2, 8, 10, 11}), "0-2,8,10-11");
  for (const char* wrong : {"a", "3-1", "1-", "0-99999999", "-1", "1,,2"})
    EXPECT_FALSE(parse_cores(wrong).has_value()) << wrong;
}

TEST(CoreLists, OfThisProcessCanBeSet) {
  const Cores before = allowed_cores();
  ASSERT_FALSE(before.empty());
  run_on({before.front()});
  EXPECT_EQ(allowed_cores(), (Cores{before.front()}));
  run_on(before);
}

}  // namespace
}  // namespace causeway::run
