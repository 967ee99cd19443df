#include "apps/run/doctor/checks.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace causeway::run {
namespace {

using testing::HasSubstr;
using Grade = Finding::Grade;

// Of a program of its own: nothing is known of its model.
Config config() {
  Config config;
  config.name = "test";
  config.regions.resize(2);
  config.regions[0].name = "east";
  config.regions[1].name = "west";
  return config;
}

HostFigures good_host() {
  return {.cores = {.count = 8},
          .host_cores = 8,
          .memory = {.total_bytes = 64ULL << 30, .available_bytes = 64ULL << 30, .limit = {}},
          .open_files_max = 1U << 16,
          .file_bytes_max = ~std::uint64_t{0},
          .avx2 = true,
          .bf16 = true};
}

Finding about_host(const Findings& findings, const std::string& subject) {
  const auto found = std::ranges::find(findings, subject, &Finding::subject);
  return found == findings.end() ? Finding{} : *found;
}

TEST(Host, ThatIsGoodHasNoWarning) {
  for (const Finding& finding : judge_host(good_host(), config(), "east"))
    EXPECT_EQ(finding.grade, Grade::ok) << finding.subject << ": " << finding.text;
}

// Of a host that never has it, or that has not got it now.
TEST(Host, HasTheMemoryThatAWorkerNeedsOrItIsSaid) {
  Config own = config();
  own.data.files = {"text"};
  HostFigures host = good_host();
  EXPECT_EQ(about_host(judge_host(host, own, "east"), "memory").grade, Grade::ok);
  host.memory.available_bytes = 1U << 20;
  EXPECT_EQ(about_host(judge_host(host, own, "east"), "memory").grade, Grade::warn);
  host.memory.total_bytes = 2U << 20;
  host.memory.limit = "/sys/fs/cgroup/job";
  const Finding refused = about_host(judge_host(host, own, "east"), "memory");
  EXPECT_EQ(refused.grade, Grade::fail);
  EXPECT_THAT(refused.text, HasSubstr("/sys/fs/cgroup/job has 2"));
}

TEST(Host, IsNotGoodWithoutWhatARegionNeeds) {
  HostFigures host = good_host();
  host.avx2 = false;
  host.busy_cores = 1.1;
  host.busiest = "make (pid 5)";
  host.open_files_max = 64;
  host.file_bytes_max = 1000;
  host.openmp = {{"OMP_WAIT_POLICY", "ACTIVE"}};
  const Findings findings = judge_host(host, config(), "east");
  EXPECT_EQ(about_host(findings, "processor").grade, Grade::warn);
  EXPECT_THAT(about_host(findings, "load").text, HasSubstr("most with make (pid 5)"));
  EXPECT_THAT(about_host(findings, "open files").advice, HasSubstr("ulimit -n 224"));
  EXPECT_EQ(about_host(findings, "file size").grade, Grade::fail);
  EXPECT_EQ(about_host(findings, "OpenMP").grade, Grade::warn);
}

TEST(Host, HasAddressesForAWorker) {
  HostFigures host = good_host();
  host.address_bytes_max = 1'000'000'000;
  EXPECT_EQ(about_host(judge_host(host, config(), "east"), "address space").grade, Grade::fail);
  EXPECT_THAT(about_host(judge_host(host, config(), "east"), "address space").advice,
              HasSubstr("ulimit -v"));
  host.address_bytes_max = 1ULL << 40;
  EXPECT_EQ(about_host(judge_host(host, config(), "east"), "address space").grade, Grade::ok);
}

TEST(Host, SaysHowManyThreadsFit) {
  Config two = config();
  two.regions[0].workers = 2;
  EXPECT_THAT(about_host(judge_host(good_host(), two, "east"), "OpenMP").advice,
              HasSubstr("OMP_NUM_THREADS=4"));
  HostFigures host = good_host();
  host.openmp = {{"OMP_NUM_THREADS", "4"}};
  EXPECT_EQ(about_host(judge_host(host, two, "east"), "OpenMP").grade, Grade::ok);
}

// A container, or a job that has a part of its node.
TEST(Host, OfWhichThisRegionHasAPartMayBeBusyElsewhere) {
  HostFigures host = good_host();
  host.cores = {.count = 4, .quota = 3.5, .limit = "/sys/fs/cgroup/pod"};
  host.busy_cores = 3.9;
  const Findings findings = judge_host(host, config(), "east");
  EXPECT_THAT(about_host(findings, "processor").text,
              HasSubstr("4 cores (the quota of /sys/fs/cgroup/pod is 3.5)"));
  EXPECT_EQ(about_host(findings, "load").grade, Grade::ok);
  EXPECT_EQ(about_host(findings, "load").text, "3.9 of 8 cores were busy for a second");
  EXPECT_EQ(about_host(findings, "OpenMP").text, "4 threads for each worker");
  host.busy_cores = 4.1;
  EXPECT_EQ(about_host(judge_host(host, config(), "east"), "load").grade, Grade::warn);
}

TEST(Disk, ThatIsSlowerThanAnElectionFails) {
  Config usual = config();
  usual.sync.rules.election = std::chrono::seconds{2};
  const auto speed = [&](double seconds) {
    return about_host(judge_disk({.free_bytes = 1ULL << 40, .sync_median_s = seconds}, usual, "."),
                      "disk speed")
        .grade;
  };
  EXPECT_EQ(speed(0.01), Grade::ok);
  EXPECT_EQ(speed(0.2), Grade::warn);
  EXPECT_EQ(speed(0.6), Grade::fail);
}

TEST(Disk, WithoutRoomForTheSpoolFails) {
  const auto room = [](std::uint64_t free) {
    return about_host(judge_disk({.free_bytes = free}, config(), "."), "disk room").grade;
  };
  EXPECT_EQ(room(1ULL << 40), Grade::ok);
  EXPECT_EQ(room(1ULL << 30), Grade::fail);
}

}  // namespace
}  // namespace causeway::run
