#include "intra/base/usable_cores.h"

#include <gtest/gtest.h>

#include <sched.h>

#include <fstream>
#include <thread>

#include "tests/intra/temporary_directory.h"

namespace causeway::intra {
namespace {

namespace fs = std::filesystem;

// A host of 64 cores.
class HostOfCores {
 public:
  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((directory_.path() / file).parent_path());
    std::ofstream(directory_.path() / file) << text;
  }
  UsableCores cores(unsigned allowed = 64) const {
    return usable_cores(directory_.path(), allowed);
  }

 private:
  TemporaryDirectory directory_;
};

TEST(UsableCores, AreThoseThatAreAllowedWhereThereIsNoQuota) {
  const HostOfCores host;
  EXPECT_EQ(host.cores().count, 64U);
  host.write("proc/self/cgroup", "0::/job\n");
  host.write("sys/fs/cgroup/job/cpu.max", "max 100000\n");
  EXPECT_EQ(host.cores().count, 64U);
  EXPECT_EQ(host.cores().limit, "");
}

TEST(UsableCores, AreThoseOfTheThreadAlone) {
  unsigned count = 0;
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(::sched_getcpu(), &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    count = compression::allowed_core_count();
  }).join();
  EXPECT_EQ(count, 1U);
}

TEST(UsableCores, AreAsManyAsTheSmallestQuotaAroundIsGoodFor) {
  const HostOfCores host;
  host.write("proc/self/cgroup", "0::/pod/worker\n");
  host.write("sys/fs/cgroup/pod/worker/cpu.max", "800000 100000\n");
  host.write("sys/fs/cgroup/pod/cpu.max", "350000 100000\n");
  const UsableCores cores = host.cores();
  EXPECT_EQ(cores.count, 4U);
  EXPECT_EQ(cores.quota, 3.5);
  EXPECT_TRUE(cores.limit.ends_with("sys/fs/cgroup/pod")) << cores.limit;
  EXPECT_EQ(host.cores(2).count, 2U) << "fewer are allowed";
  EXPECT_EQ(host.cores(2).quota, 0);
}

TEST(UsableCores, OfAQuotaOfTheFirstVersionCountToo) {
  const HostOfCores host;
  host.write("proc/self/cgroup", "3:memory:/job\n2:cpu,cpuacct:/job\n0::/\n");
  host.write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "50000\n");
  host.write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(host.cores().count, 1U) << "of half a core";
  host.write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(host.cores().count, 64U);
}

}  // namespace
}  // namespace causeway::intra
