#include "wan-sim/scenario/trace.h"

#include <system_error>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wan-sim/base/error.h"

namespace causeway::wan_sim {
namespace {

using namespace std::chrono_literals;

void expect_refused(const std::string& text, TraceFormat format, int line,
                    const std::string& what) {
  try {
    parse_trace(text, format, "trace.csv");
    ADD_FAILURE() << "accepted: " << text;
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), Errc::bad_scenario);
    EXPECT_THAT(error.what(), testing::StartsWith("trace.csv:" + std::to_string(line) + ": "));
    EXPECT_THAT(error.what(), testing::HasSubstr(what));
  }
}

TEST(Trace, ReadsCsvInAnyOrderOfColumns) {
  const Trace trace =
      parse_trace("t, loss, rate,rtt\n0,0,100,80\r\n1.5,0.01,50,90\n\n", TraceFormat::csv, "x");
  ASSERT_EQ(trace.steps.size(), 2U);
  EXPECT_EQ(trace.steps[1].at, 1500ms);
  EXPECT_EQ(trace.steps[1].settings,
            (Settings{{"rate_mbit_s", 50}, {"delay_ms", 45}, {"loss", 0.01}}));
  EXPECT_EQ(trace.length, 3s);  // the last row lasts as long as the one before
}

TEST(Trace, ReadsTheCsvOfASpreadsheet) {
  const Trace trace = parse_trace("\xEF\xBB\xBFt,rate\r\n0,5\r\n", TraceFormat::csv, "x");
  EXPECT_EQ(trace.steps.front().settings, (Settings{{"rate_mbit_s", 5}}));
}

TEST(Trace, SaysWhatIsWrongWithACsv) {
  const auto refuse = [](const std::string& text, int line, const std::string& what) {
    expect_refused(text, TraceFormat::csv, line, what);
  };
  refuse("", 0, "is empty");
  refuse("time,rate\n", 1, "the first line must be t and any of rate, rtt, loss");
  refuse("t,speed\n", 1, "unknown column 'speed'");
  refuse("t,rate\n", 1, "has no rows");
  refuse("t,rate\n0,fast\n", 2, "rate must be a number from 0 to 100000, not 'fast'");
  refuse("t,rate\n0,nan\n", 2, "rate must be a number");
  refuse("t,loss\n0,0.6\n", 2, "loss must be a number from 0 to 0.5");
  refuse("t,rate\n0,1,2\n", 2, "has 3 values where the first line has 2");
  refuse("t,rate\n0,1\n0,2\n", 3, "t must increase");
}

TEST(Trace, CountsMahimahisOpportunitiesAsARate) {
  // 12 packets in the first 20 ms, none in the next, 6 in the 5 ms that are left.
  std::string text;
  for (int i = 0; i < 12; ++i) text += std::to_string(i) + "\n";
  for (int i = 0; i < 6; ++i) text += "45\n";
  const Trace trace = parse_trace(text, TraceFormat::mahimahi, "x");
  ASSERT_EQ(trace.steps.size(), 3U);
  EXPECT_EQ(trace.steps[0].settings, (Settings{{"rate_mbit_s", 7.2}}));
  EXPECT_EQ(trace.steps[1].settings, (Settings{{"rate_mbit_s", 0}}));
  EXPECT_EQ(trace.steps[2].at, 40ms);
  EXPECT_EQ(trace.steps[2].settings, (Settings{{"rate_mbit_s", 14.4}}));
  EXPECT_EQ(trace.length, 45ms);
}

TEST(Trace, BeginsAgainWithMahimahisLastLine) {
  for (const char* text : {"1\n", "0\n1\n2\n3\n", "20\n20\n20\n40\n40\n40\n"}) {
    const Trace trace = parse_trace(text, TraceFormat::mahimahi, "x");
    ASSERT_EQ(trace.steps.size(), 1U) << text;
    EXPECT_LT(trace.length, 41ms);
  }
  const Trace constant = parse_trace("1\n", TraceFormat::mahimahi, "x");
  EXPECT_EQ(constant.steps[0].settings, (Settings{{"rate_mbit_s", 12}}));
  EXPECT_EQ(constant.length, 1ms);
}

TEST(Trace, RefusesALinkThatNeverMoves) {
  expect_refused("t,rate\n0,0\n1,0\n", TraceFormat::csv, 3, "no row whose rate is above 0");
  EXPECT_EQ(parse_trace("t,rate\n0,0\n1,5\n", TraceFormat::csv, "x").steps.size(), 2U);
  EXPECT_EQ(parse_trace("t,loss\n0,0\n", TraceFormat::csv, "x").steps.size(), 1U);
}

TEST(Trace, SaysWhatIsWrongWithAMahimahiTrace) {
  const auto refuse = [](const std::string& text, int line, const std::string& what) {
    expect_refused(text, TraceFormat::mahimahi, line, what);
  };
  refuse("", 0, "has no lines");
  refuse("0\n0\n", 2, "must be above 0 in the last line");
  refuse("1\n-2\n", 2, "must be a whole number of milliseconds");
  refuse("5\n4\n", 2, "must not be less than the line before");
  refuse("0\n999999999999\n", 2, "up to 1000000000");
  refuse("0\n1000000000\n", 2, "leaves a gap");
}

}  // namespace
}  // namespace causeway::wan_sim
