#include "apps/run/region/launched_rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "apps/run/config/config.h"

namespace causeway::run {
namespace {

using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

Environment environment(const Variables& variables) {
  return [variables](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

std::optional<LaunchedRank> launched(const Variables& variables, std::uint32_t workers = 4,
                                     const std::string& launcher = "") {
  return launched_rank(environment(variables), launcher, workers);
}

std::string refusal(const Variables& variables, const std::string& launcher = "") {
  try {
    launched(variables, 4, launcher);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

const Variables kTorchrun{{"RANK", "3"},
                          {"WORLD_SIZE", "4"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "node0"},
                          {"MASTER_PORT", "29500"}};
const Variables kSlurm{{"SLURM_PROCID", "2"},
                       {"SLURM_NTASKS", "4"},
                       {"SLURM_LOCALID", "0"},
                       {"SLURM_NNODES", "2"},
                       {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.7"}};
const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}
Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

// Elsewhere a shell in between may end before them.
TEST(LaunchedRank, IsItsLaunchersChildWhereThatIsCertain) {
  EXPECT_TRUE(launched(kOpenMpi)->is_launchers_child);
  EXPECT_TRUE(launched(with(kTorchrun, {{"TORCHELASTIC_RUN_ID", "none"}}))->is_launchers_child);
  EXPECT_FALSE(launched(kTorchrun)->is_launchers_child);
  EXPECT_FALSE(launched(kSlurm)->is_launchers_child);
}

TEST(Launcher, TellsTheRankTheDeviceAndWhereToMeet) {
  const auto torchrun = launched(kTorchrun), slurm = launched(kSlurm), openmpi = launched(kOpenMpi);
  EXPECT_EQ(torchrun->rank, 3);
  EXPECT_EQ(torchrun->local_rank, 1);
  EXPECT_EQ(torchrun->meeting_host, "node0");
  EXPECT_EQ(slurm->rank, 2);
  EXPECT_EQ(slurm->local_rank, 0);
  EXPECT_EQ(slurm->meeting_host, "10.0.0.7");
  EXPECT_EQ(openmpi->rank, 1);
  EXPECT_EQ(openmpi->local_rank, 1);
  EXPECT_EQ(openmpi->meeting_host, "") << "all on this host";
}

TEST(Launcher, NobodyLaunchedIt) {
  EXPECT_FALSE(launched({}));
  EXPECT_FALSE(launched({{"SLURM_NTASKS", "4"}})) << "the shell of an allocation";
  EXPECT_FALSE(launched({{"RANK", ""}, {"WORLD_SIZE", ""}}));
  EXPECT_FALSE(launched(kTorchrun, 4, "none"));
}

TEST(Launcher, RefusesWhatIsIncomplete) {
  EXPECT_THAT(refusal(without(kTorchrun, "WORLD_SIZE")),
              HasSubstr("RANK=3 is set but WORLD_SIZE is not"));
  EXPECT_THAT(refusal(without(kTorchrun, "RANK")),
              HasSubstr("WORLD_SIZE=4 is set but RANK is not"));
  EXPECT_THAT(refusal(without(kTorchrun, "MASTER_ADDR")), HasSubstr("MASTER_ADDR is not"));
  EXPECT_THAT(refusal(without(kSlurm, "SLURM_NTASKS")), HasSubstr("SLURM_NTASKS is not"));
  EXPECT_THAT(refusal(without(kSlurm, "SLURM_LAUNCH_NODE_IPADDR")), HasSubstr("set MASTER_ADDR"));
  EXPECT_THAT(refusal(with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}})),
              HasSubstr("set MASTER_ADDR"));
}

TEST(Launcher, RefusesWhatContradictsItself) {
  EXPECT_THAT(refusal(with(kTorchrun, {{"RANK", "4"}})),
              HasSubstr("RANK=4 must be below WORLD_SIZE=4"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"RANK", "x"}})), HasSubstr("RANK=x: not a number"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"RANK", "-1"}})), HasSubstr("not a number"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"WORLD_SIZE", "8"}})),
              HasSubstr("WORLD_SIZE=8, but the region has workers = 4"));
}

TEST(Launcher, AsksWhichOfTwoIsMeant) {
  const Variables both = with(kSlurm, kTorchrun);
  EXPECT_THAT(refusal(both), HasSubstr("--launcher torchrun or --launcher slurm"));
  EXPECT_EQ(launched(both, 4, "torchrun")->rank, 3);
  EXPECT_EQ(launched(both, 4, "slurm")->rank, 2);
  EXPECT_THAT(refusal(both, "openmpi"), HasSubstr("OMPI_COMM_WORLD_RANK is not set"));
  EXPECT_THAT(refusal(both, "mpich"), HasSubstr("must be torchrun, slurm, openmpi or none"));
  EXPECT_EQ(launched(with(both, {{"SLURM_PROCID", "3"}}))->rank, 3) << "they agree";
}

}  // namespace
}  // namespace causeway::run
