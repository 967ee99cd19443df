#include "diloco/coordinator/status_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>

#include "inter/mesh/namesakes.h"
#include "tests/diloco/coordinator/lone_region.h"
#include "tests/diloco/round/region_a.h"

namespace causeway::diloco::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Region a, alone in its run.
class StatusViewTest : public ::testing::Test {
 protected:
  void attach() {
    AttachRequest rank_0;
    rank_0.region = "a";
    worker_.on_gathered(rank_0, {});
  }
  void report(double loss) {
    Progress progress;
    progress.set_phase("compute");
    progress.set_loss(loss);
    progress.set_tokens_per_s(7);
    worker_.on_report(progress);
  }

  LoneRegion region_;
  PeerLinks links_{region_.context()};
  WorkerSide worker_{region_.context()};
  StatusView view_{region_.context(), links_, worker_};
};

TEST_F(StatusViewTest, HasTheRunAndHowFarTheRegionIs) {
  region_.begin();
  region_.driver_->handle(WorkerContributed{region_.contribution()});
  const RegionStatus status = view_.status();
  EXPECT_EQ(status.region, "a");
  EXPECT_EQ(status.run_id, region_.driver_->protocol().run_id());
  EXPECT_EQ(status.leader, "a");
  EXPECT_EQ(status.steps, 400U);
  EXPECT_EQ(status.k, 4U);
  EXPECT_EQ(status.round, 1U);
  EXPECT_EQ(status.version, 0U) << "the worker has not applied the round yet";
  region_.driver_->handle(WorkerApplied{{.version = 1, .state = {}}});
  EXPECT_EQ(view_.status().version, 1U);
  EXPECT_EQ(view_.applied_version(), 1U);
  EXPECT_FALSE(view_.status().finished);
  EXPECT_FALSE(view_.status().egress) << "no prices are known";
}

TEST(LateAnswers, AreNamedWhereTheyAreTooLongForAnElection) {
  std::map<std::string, inter::LinkStats> links;
  EXPECT_EQ(late_answers(links, milliseconds(2'000)), "");
  links["b"] = {.up = true, .round_trip = milliseconds(1'000)};
  links["c"] = {.up = true, .round_trip = milliseconds(100)};
  EXPECT_EQ(late_answers(links, milliseconds(2'000)), "");
  links["b"].round_trip = milliseconds(2'300);
  EXPECT_THAT(
      late_answers(links, milliseconds(2'000)),
      ::testing::HasSubstr("Answers of b take 2.3 s, and sync.election_timeout_s is 2.0 s"));
  links["b"].up = false;
  EXPECT_EQ(late_answers(links, milliseconds(2'000)), "") << "what it took is of before";
  links["c"].round_trip = milliseconds(1'500);
  EXPECT_THAT(late_answers(links, milliseconds(2'000)), ::testing::HasSubstr("Answers of c take"));
}

TEST_F(StatusViewTest, OfTheProcessThatStaysOutForAnotherOneSaysSo) {
  const std::string what = std::string(inter::kTwoProcesses) + "a: one at 10.0.0.1:7, and ...";
  links_.on_refused_by("b", inter::LinkError(inter::Errc::refused, what));
  EXPECT_EQ(view_.waiting_for(),
            "the other process with this region's certificate to end (refused by b: " + what + ")");
  links_.on_peer_up("b", "");
  EXPECT_EQ(view_.waiting_for().find("other process"), std::string::npos);
}

TEST_F(StatusViewTest, OfARegionThatAbstainsSaysWhyAndNamesNoLeader) {
  region_.begin();
  view_.set_abstention("its storage fails");
  EXPECT_EQ(view_.waiting_for(), "its storage fails");
  const RegionStatus status = view_.status();
  EXPECT_TRUE(status.abstains);
  EXPECT_EQ(status.waiting, "its storage fails");
  EXPECT_EQ(status.leader, "");
}

TEST_F(StatusViewTest, IsFinishedOnceNothingIsWaitedForAtTheEnd) {
  region_.begin();
  attach();
  region_.ending_.finish({0, "done"});
  view_.set_goodbye("its worker");
  EXPECT_EQ(view_.status().waiting, "its worker");
  EXPECT_FALSE(view_.status().finished);
  worker_.on_worker_lost();
  EXPECT_THAT(view_.status().missing_ranks, ElementsAre(0U));
  view_.set_goodbye("");
  EXPECT_TRUE(view_.status().finished);
  EXPECT_THAT(view_.status().missing_ranks, IsEmpty()) << "who is finished needs none";
}

TEST_F(StatusViewTest, IsNotFinishedByAnyOtherEnd) {
  region_.ending_.finish({130, "interrupted"});
  EXPECT_FALSE(view_.status().finished);
}

TEST_F(StatusViewTest, HasTheWorkerAndItsRanks) {
  region_.options_.workers = 2;
  EXPECT_EQ(view_.status().workers, 2U);
  EXPECT_FALSE(view_.status().degraded) << "no worker is attached";
  AttachRequest rank_0;
  rank_0.region = "a";
  worker_.on_gathered(rank_0, {1});
  report(2.5);
  EXPECT_TRUE(view_.status().degraded);
  EXPECT_THAT(view_.status().missing_ranks, ElementsAre(1U));
  EXPECT_EQ(view_.status().progress.loss(), 2.5);
  EXPECT_FALSE(view_.status().loss_not_finite);
  report(std::numeric_limits<double>::infinity());
  EXPECT_TRUE(view_.status().loss_not_finite);
}

// What it computed before says nothing of now.
TEST_F(StatusViewTest, AWorkerThatIsSilentComputesNothing) {
  region_.begin();
  attach();
  region_.driver_->handle(WorkerReady{});
  report(1);
  EXPECT_EQ(view_.status().waiting, "");
  EXPECT_EQ(view_.status().progress.tokens_per_s(), 7);
  for (steady_clock::time_point now{}; worker_.silence().empty(); now += milliseconds(250))
    worker_.look_for_silence(now);
  EXPECT_EQ(view_.status().progress.tokens_per_s(), 0);
  EXPECT_EQ(view_.status().waiting, worker_.silence());
  EXPECT_EQ(view_.status().worker_silent_s, 60U);
  region_.ending_.finish({130, "interrupted"});
  EXPECT_EQ(view_.status().progress.tokens_per_s(), 7) << "it is let go";
}

TEST_F(StatusViewTest, HasTheLastErrorAndWhenCertificatesEnd) {
  EXPECT_EQ(view_.status().last_error, "");
  EXPECT_FALSE(view_.status().certificates_until_unix_s);
  view_.set_last_error("a mistake");
  view_.look_at_certificates(steady_clock::now());
  EXPECT_EQ(view_.status().last_error, "a mistake");
  EXPECT_TRUE(view_.status().certificates_until_unix_s);
}

TEST_F(StatusViewTest, NamesTheMemberThatWasWaitedForLongest) {
  region_.driver_.emplace(region_.loop_.get_executor(), region_.ending_, region_.directory_.spool(),
                          options_of_a(), state_of_a({"a", "b", "c"}), [](const Action&) {});
  EXPECT_EQ(view_.status().waited_for, "");
  view_.note_wait("c (no contribution yet)");
  view_.note_wait("b and c");
  EXPECT_EQ(view_.status().waited_for, "c");
}

TEST_F(StatusViewTest, HasWhatTheRunPaysWherePricesAreKnown) {
  region_.options_.egress_prices.given = true;
  ASSERT_TRUE(view_.status().egress);
  EXPECT_EQ(view_.status().egress->cost, 0);
  EXPECT_THAT(view_.status().egress->said, IsEmpty());
}

TEST(StatusViewOfAWitness, HasNoWorkers) {
  LoneRegion region(0, Start::join, {}, {{.region = "a", .witness = true}, {.region = "b"}});
  const PeerLinks links(region.context());
  const WorkerSide worker(region.context());
  const RegionStatus status = StatusView(region.context(), links, worker).status();
  EXPECT_EQ(status.workers, 0U);
  EXPECT_THAT(status.missing_ranks, IsEmpty());
}

}  // namespace
}  // namespace causeway::diloco::testing
