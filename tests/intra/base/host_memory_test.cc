#include "intra/base/host_memory.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/intra/temporary_directory.h"

namespace causeway::intra {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kGibi = 1ULL << 30;

// A host of 24 GiB and 1 GiB of swap, of which 20 and 1 are free.
class Host {
 public:
  Host() {
    write("proc/meminfo",
          "MemTotal:       25165824 kB\nMemFree:         1000 kB\nMemAvailable:   20971520 kB\n"
          "SwapTotal:       1048576 kB\nSwapFree:        1048576 kB\n");
    write("proc/vmstat", "pgfault 7\noom_kill 3\n");
    write("proc/self/cgroup", "0::/\n");
  }
  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((directory_.path() / file).parent_path());
    std::ofstream(directory_.path() / file) << text;
  }
  HostMemory memory() const { return host_memory(directory_.path()); }
  std::uint64_t kills() const { return memory_kills(directory_.path()); }

 private:
  TemporaryDirectory directory_;
};

TEST(HostMemory, IsTheHostsWithItsSwap) {
  const HostMemory memory = Host().memory();
  EXPECT_EQ(memory.total_bytes, 25 * kGibi);
  EXPECT_EQ(memory.available_bytes, 21 * kGibi);
  EXPECT_EQ(memory.limit, "");
}

TEST(HostMemory, OfAControlGroupIsWhatItAndThoseAroundItLeave) {
  const Host host;
  host.write("proc/self/cgroup", "0::/slurm/job\n");
  host.write("sys/fs/cgroup/slurm/job/memory.max", "max\n");
  host.write("sys/fs/cgroup/slurm/memory.max", "4294967296\n");
  host.write("sys/fs/cgroup/slurm/memory.current", "2147483648\n");
  host.write("sys/fs/cgroup/slurm/memory.stat",
             "anon 5\nactive_file 536870912\ninactive_file 536870912\n");
  const HostMemory memory = host.memory();
  EXPECT_EQ(memory.total_bytes, 4 * kGibi);
  EXPECT_EQ(memory.available_bytes, 3 * kGibi) << "what it has of files can be let go";
  EXPECT_TRUE(memory.limit.ends_with("sys/fs/cgroup/slurm")) << memory.limit;
}

TEST(HostMemory, OfAControlGroupOfTheFirstVersionCountsToo) {
  const Host host;
  host.write("proc/self/cgroup", "5:devices:/a\n4:cpu,memory:/job\n0::/\n");
  host.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  host.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "3221225472\n");
  host.write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1073741824\n");
  const HostMemory memory = host.memory();
  EXPECT_EQ(memory.total_bytes, 3 * kGibi);
  EXPECT_EQ(memory.available_bytes, 2 * kGibi);
}

TEST(HostMemory, OfAHostThatSaysNothingIsNotKnown) {
  const TemporaryDirectory nothing;
  EXPECT_EQ(host_memory(nothing.path()).total_bytes, 0U);
  EXPECT_EQ(memory_kills(nothing.path()), 0U);
}

TEST(MemoryKills, AreCountedByTheHostOrByTheControlGroup) {
  const Host host;
  EXPECT_EQ(host.kills(), 3U);
  host.write("proc/self/cgroup", "0::/job\n");
  host.write("sys/fs/cgroup/job/memory.events", "low 0\noom 9\noom_kill 5\n");
  EXPECT_EQ(host.kills(), 5U);
}

TEST(HostMemory, IsShownInMebibytes) {
  EXPECT_EQ(in_mib(1), "1 MiB");
  EXPECT_EQ(in_mib(1000ULL << 20), "1,000 MiB");
  EXPECT_EQ(in_mib((1234567ULL << 20) + 1), "1,234,568 MiB");
}

}  // namespace
}  // namespace causeway::intra
