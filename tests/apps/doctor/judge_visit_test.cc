#include "apps/run/doctor/checks.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/error.hpp>

#include "inter/base/error.h"

namespace causeway::run {
namespace {

using testing::HasSubstr;
using Grade = Finding::Grade;

Card card(const std::string& region) {
  return {.region = region,
          .program = "1",
          .time_unix_s = 0,
          .settings = "k = 4\n",
          .data = {.whole = "d", .sample = "s"},
          .packages = {{"torch", "2.6"}}};
}

Neighbour good() {
  Neighbour west;
  west.address = {.host = "west.example", .port = 4700};
  west.card = card("west");
  west.clock_ahead_s = 0.1;
  west.says_of_us = "";
  west.linked = true;
  west.link.round_trip = std::chrono::milliseconds{100};
  west.link.segment_bytes = 1448;
  west.payload_s = 1.1;
  west.payload_came = true;
  return west;
}

Findings judged(const Neighbour& west) {
  return judge_visit(
      {.listening_problem = "", .payload_bytes = 12'500'000, .neighbours = {{"west", west}}},
      {.card = card("east"),
       .advertise = {.host = "east.example", .port = 4700},
       .round_payload_bytes = 25'000'000});
}

Finding about(const Findings& findings, const std::string& subject) {
  const auto found = std::ranges::find(findings, subject, &Finding::subject);
  return found == findings.end() ? Finding{} : *found;
}

TEST(Links, ThatAreGoodHaveNoWarning) {
  const Findings findings = judged(good());
  for (const Finding& finding : findings)
    EXPECT_EQ(finding.grade, Grade::ok) << finding.subject << ": " << finding.text;
  EXPECT_THAT(about(findings, "link to west").text,
              testing::AllOf(HasSubstr("round trip 100.0 ms, 100.0 Mbit/s"),
                             HasSubstr("an exchange takes about 2.1 s")));
  EXPECT_THAT(about(findings, "own address").text, HasSubstr("reached from west"));
}

TEST(Links, OfRegionsWithoutAPortSayWhatTheFileLacks) {
  Neighbour west = good();
  west.address.port = 0;
  west.problem = "nobody can dial port 0";
  EXPECT_THAT(about(judged(west), "address of west").advice, HasSubstr("write `listen`"));
  const Finding own = about(judge_visit({.listening_problem = "", .neighbours = {{"west", good()}}},
                                        {.card = card("east"),
                                         .advertise = {.host = "127.0.0.1", .port = 0},
                                         .round_payload_bytes = 1}),
                            "own address");
  EXPECT_EQ(own.grade, Grade::fail);
  EXPECT_THAT(own.advice, HasSubstr("write `listen`"));
}

TEST(Links, OverWhichOnlySmallPacketsPassAreNamedSo) {
  Neighbour west = good();
  west.payload_s = 0;
  west.link.segment_bytes = 0;
  const Finding link = about(judged(west), "link to west");
  EXPECT_EQ(link.grade, Grade::fail);
  EXPECT_THAT(link.text, HasSubstr("small messages pass, 12.5 MB did not"));
  EXPECT_THAT(link.advice, HasSubstr("MTU"));
}

// The round trip is 100 ms.
TEST(Links, WhoseRoundTripIsTooLongForAnElectionAreWarnedOf) {
  const auto link_with = [](double election_timeout_s) {
    const Visit visit{
        .listening_problem = "", .payload_bytes = 12'500'000, .neighbours = {{"west", good()}}};
    return about(judge_visit(visit, {.card = card("east"),
                                     .advertise = {.host = "east.example", .port = 4700},
                                     .round_payload_bytes = 25'000'000,
                                     .election_timeout_s = election_timeout_s}),
                 "link to west");
  };
  EXPECT_EQ(link_with(0.25).grade, Grade::ok);
  EXPECT_EQ(link_with(0.15).grade, Grade::warn);
  EXPECT_THAT(link_with(0.15).advice, HasSubstr("set sync.election_timeout_s to 1.0 or more"));
}

TEST(Links, ToAnAddressThatAnswersSmallPacketsAloneAreNamedSo) {
  Neighbour west = good();
  west.problem = "no answer within 4.0 s";
  west.small_packets_pass = true;
  EXPECT_EQ(about(judged(west), "address of west").grade, Grade::fail);
  EXPECT_THAT(about(judged(west), "address of west").advice, HasSubstr("MTU"));
}

TEST(Links, ThatAreSlowLoseMuchOrHaveSmallPacketsAreWarnedOf) {
  Neighbour slow = good(), lossy = good(), narrow = good();
  slow.payload_s = 0;
  slow.link.rate_bytes_per_s = 1e5;
  lossy.link.loss = 0.03;
  narrow.link.segment_bytes = 900;
  EXPECT_THAT(about(judged(slow), "link to west").advice, HasSubstr("slow link"));
  EXPECT_THAT(about(judged(lossy), "link to west").advice, HasSubstr("lost"));
  EXPECT_THAT(about(judged(narrow), "link to west").advice, HasSubstr("MTU"));
}

TEST(Links, SayInWhatTheRegionsDiffer) {
  Neighbour west = good();
  west.card->settings = "k = 6\n";
  west.card->data.whole = "other";
  west.card->program = "2";
  west.card->packages = {{"torch", "2.7"}};
  west.clock_ahead_s = -4000;
  const Findings findings = judged(west);
  EXPECT_THAT(about(findings, "configuration of west").text, HasSubstr("k = 4 here, 6 in west"));
  EXPECT_EQ(about(findings, "data of west").grade, Grade::fail);
  EXPECT_EQ(about(findings, "program of west").grade, Grade::warn);
  EXPECT_THAT(about(findings, "packages of west").text, HasSubstr("torch 2.7, here 2.6"));
  EXPECT_THAT(about(findings, "clock of west").text, HasSubstr("4000 s behind"));
}

TEST(Links, SayByWhatTheDataIsTheSame) {
  Neighbour west = good();
  EXPECT_EQ(about(judged(west), "data of west").grade, Grade::ok);
  EXPECT_THAT(about(judged(west), "data of west").text, HasSubstr("every byte"));
  west.card->data.whole = "";  // it has not read all
  EXPECT_EQ(about(judged(west), "data of west").grade, Grade::warn);
  EXPECT_THAT(about(judged(west), "data of west").text, HasSubstr("a sample is the same"));
  west.card->data.sample = "other";
  EXPECT_EQ(about(judged(west), "data of west").grade, Grade::fail);
}

TEST(Links, SayWhetherARunningCoordinatorsDataIsTheSame) {
  Neighbour west = good();
  west.card.reset();
  west.status = R"({"region": "west", "data": {"sha256": "d", "sample_sha256": "s"}})";
  EXPECT_EQ(about(judged(west), "data of west").grade, Grade::ok);
  west.status = R"({"region": "west", "data": {"sha256": "e", "sample_sha256": "s"}})";
  EXPECT_EQ(about(judged(west), "data of west").grade, Grade::fail);
  west.status = R"({"region": "west", "data": null})";
  EXPECT_EQ(about(judged(west), "data of west").subject, "") << "no worker is there yet";
}

TEST(Links, ToAnAddressThatAnotherRegionAnswersAreNamedSo) {
  Neighbour west = good();
  west.problem = "west.example:4700 is answered by south";
  EXPECT_EQ(about(judged(west), "address of west").grade, Grade::fail);
  EXPECT_THAT(about(judged(west), "address of west").advice, HasSubstr("correct its advertise"));
}

TEST(Links, SayWhoCannotReachUsAndWhomWeCannotReach) {
  Neighbour west = good();
  west.says_of_us = "connection refused";
  west.problem = "the name cannot be looked up";
  west.problem_code = asio::error::host_not_found;
  const Findings findings = judged(west);
  EXPECT_EQ(about(findings, "own address").grade, Grade::fail);
  EXPECT_THAT(about(findings, "own address").text, HasSubstr("west (connection refused)"));
  EXPECT_THAT(about(findings, "address of west").advice, HasSubstr("name server"));
}

TEST(Links, DoNotSayThatAllReachUsWhereOneSaidNothing) {
  Neighbour south = good();
  south.says_of_us.reset();
  const auto own_address = [&] {
    return about(
        judge_visit({.listening_problem = "",
                     .payload_bytes = 1,
                     .neighbours = {{"south", south}, {"west", good()}}},
                    {.card = card("east"), .advertise = {.host = "east.example", .port = 4700}}),
        "own address");
  };
  EXPECT_EQ(own_address().grade, Grade::warn);
  EXPECT_THAT(own_address().text, HasSubstr("reached from west; not known from south"));
  south.status = "{}";
  EXPECT_EQ(own_address().grade, Grade::ok) << "a coordinator cannot say";
}

TEST(Links, OfARegionThatDialsAreGoodOnceItHas) {
  Neighbour west = good();
  west.address.host.clear();
  EXPECT_EQ(about(judged(west), "address of west").grade, Grade::ok);
  west.linked = false;
  EXPECT_EQ(about(judged(west), "address of west").grade, Grade::fail);
}

TEST(Links, ThatEndInABoxOnTheWaySaySo) {
  Neighbour west = good();
  west.problem = "the peer closed the connection during the TLS handshake";
  west.problem_code = std::make_error_code(std::errc::connection_aborted);
  EXPECT_THAT(about(judged(west), "address of west").advice, HasSubstr("load balancer"));
  west.problem = "no answer within 4.0 s, though it takes connections: it hangs";
  west.problem_code = make_error_code(inter::Errc::deadline);
  EXPECT_THAT(about(judged(west), "address of west").advice, HasSubstr("says nothing"));
}

TEST(Links, OfTwoRegionsThatBothDialNeedAThird) {
  Neighbour west;
  const Findings findings =
      judge_visit({.listening_problem = "", .payload_bytes = 1, .neighbours = {{"west", west}}},
                  {.card = card("east"), .advertise = {}});
  EXPECT_EQ(about(findings, "address of west").grade, Grade::warn);
  EXPECT_THAT(about(findings, "address of west").text, HasSubstr("by way of a third region"));
}

}  // namespace
}  // namespace causeway::run
