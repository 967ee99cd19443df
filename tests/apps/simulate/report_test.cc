#include "apps/run/simulate/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/run/page/chart.h"
#include "apps/run/page/format.h"
#include "apps/run/page/html.h"

namespace causeway::run {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Summary example() {
  Summary s;
  s.name = "quick<start>";
  s.seed = 1;
  s.parameters = 1'048'576;
  s.k = 30;
  s.codec = "topk:k=64";
  s.outer = "sgd";
  s.variant = "eager";
  s.steps = 1200;
  s.rounds = 40;
  s.val_loss = 1.7171;
  s.baseline_val_loss = 1.7;
  s.wan_bytes = 8'000'000;
  s.wan_bytes_if_synced_every_step = ring_all_reduce_bytes(s.parameters, 3, s.steps);
  s.identical = true;
  s.facts = {.wall_s = 200,
             .baseline_wall_s = 150,
             .restarts = 0,
             .cores = 2,
             .wan = "configs/wan/quickstart.toml"};
  for (const char* name : {"us-east", "eu-west", "ap-northeast"}) {
    RegionSummary region;
    region.name = name;
    diloco::Progress& end = region.result.progress;
    end.set_step(s.steps);
    end.set_tokens(614'400);
    end.set_val_loss(*s.val_loss);
    end.set_compute_s(150);
    end.set_wait_s(30);
    region.wan_tx_bytes = 3'000'000;
    region.wan_rx_bytes = 2'000'000;
    region.result.params_digest = "0123456789abcdef";
    s.regions.push_back(region);
  }
  return s;
}

TEST(ReportText, TellsWhatTheRunAchieved) {
  const std::string text = report_text(example(), "In the beginning", "runs/x");
  EXPECT_THAT(text,
              HasSubstr("1,048,576 parameters, 3 regions, 3 workers, 40 rounds of K = 30 steps"));
  EXPECT_THAT(text, testing::ContainsRegex("validation loss +1.7171 +1.7000 +1.01 % higher"));
  EXPECT_THAT(text, testing::ContainsRegex("8.00 MB +20.1 GB +2,516 times fewer"));
  EXPECT_THAT(text, HasSubstr("outer sgd, eager, WAN"));
  EXPECT_THAT(text, HasSubstr("83.3 %"));
  EXPECT_THAT(text, HasSubstr("All regions hold the same bits, after every one of the 40 rounds"));
  EXPECT_THAT(text, HasSubstr("all regions shared 2 cores"));
  EXPECT_THAT(text, HasSubstr("  | In the beginning"));
  EXPECT_THAT(text, HasSubstr("runs/x"));
}

TEST(ReportText, CountsTheCoresThatWereShared) {
  Summary s = example();
  s.facts.cores = 1;
  EXPECT_THAT(report_text(s, "", "x"), HasSubstr("all regions shared 1 core, and"));
}

TEST(ReportText, SaysSoWhenTheRegionsDiffer) {
  Summary s = example();
  s.identical = false;
  EXPECT_THAT(report_text(s, "", "x"), HasSubstr("THE REGIONS DIFFER"));
  EXPECT_THAT(report_html(s, {}, ""), HasSubstr("The regions differ."));
}

// A line that was lost, or has a flipped bit, makes no region differ.
TEST(ReportText, SaysSoWhenOnlyTheEventsOfARoundDiffer) {
  Summary s = example();
  s.identical = false;
  s.same_parameters = true;
  for (const std::string& text : {report_text(s, "", "x"), report_html(s, {}, "")}) {
    EXPECT_THAT(text, HasSubstr("All regions hold the same bits at the end."));
    EXPECT_THAT(text, HasSubstr("causeway verify"));
    EXPECT_THAT(text, Not(HasSubstr("DIFFER")));
  }
}

TEST(ReportText, SaysThatTheBaselineWasSkipped) {
  Summary s = example();
  s.baseline_val_loss.reset();
  s.facts.baseline_wall_s = 0;
  const std::string text = report_text(s, "", "x");
  EXPECT_THAT(text, HasSubstr("skipped"));
  EXPECT_THAT(text, Not(HasSubstr("higher")));
}

Summary of_a_program() {
  Summary s = example();
  s.facts.worker = "torchrun train.py";
  s.facts.baseline_wall_s = 0;
  s.val_loss.reset();
  s.baseline_val_loss.reset();
  for (RegionSummary& region : s.regions) {
    region.result.progress.clear_val_loss();
    region.loss = 2.5;
  }
  s.regions[0].loss = 1;
  return s;
}

TEST(ReportText, OfAProgramSaysThatThereIsNothingToCompareWith) {
  const std::string text = report_text(of_a_program(), "", "runs/x");
  EXPECT_THAT(text, HasSubstr("trained by torchrun train.py\n"));
  EXPECT_THAT(text, testing::ContainsRegex("training loss +2.0000 +not run"));
  EXPECT_THAT(text, HasSubstr("no synchronous run to compare it with"));
  for (const char* absent : {"validation loss  ", "skipped", "checkpoints/final", "timed_step_ms"})
    EXPECT_THAT(text, Not(HasSubstr(absent)));
}

TEST(ReportText, OfAProgramALossMayBeZeroOrLessAndNotBeKnown) {
  Summary s = of_a_program();
  for (RegionSummary& region : s.regions) region.loss = -1.5;
  s.regions[0].loss = {};
  EXPECT_THAT(report_text(s, "", "runs/x"), testing::ContainsRegex("training loss +-1.5000 "));
  EXPECT_THAT(report_html(s, {}, ""), HasSubstr("not known"));
  for (RegionSummary& region : s.regions) region.loss = {};
  EXPECT_THAT(report_text(s, "", "runs/x"), testing::ContainsRegex("training loss +not known "));
}

TEST(ReportHtml, OfAProgramLeavesOutWhatNobodyMeasured) {
  const std::string html = report_html(of_a_program(), {}, "");
  EXPECT_THAT(html, HasSubstr("<code>torchrun train.py</code>"));
  for (const char* absent : {"validation", "MFU", "sums in the region", "nats", "unknown"})
    EXPECT_THAT(html, Not(HasSubstr(absent)));
}

TEST(ReportText, ALossThatIsNoNumberIsNotShownAsOne) {
  Summary s = example();
  s.val_loss = std::nan("");
  EXPECT_THAT(report_text(s, "", "x"),
              testing::ContainsRegex("validation loss +not a number +1.7000 +nats per token"));
  EXPECT_THAT(report_html(s, {}, ""), HasSubstr("not a number"));
  s.val_loss.reset();
  EXPECT_THAT(report_text(s, "", "x"), Not(HasSubstr("0.0000")));
}

TEST(ReportText, TimedStepsAreLabelled) {
  Summary s = example();
  s.timed_steps = true;
  EXPECT_THAT(report_text(s, "", "x"), HasSubstr("timed waits, not training"));
  EXPECT_THAT(report_text(s, "", "x"), Not(HasSubstr("1.7171")));
}

TEST(ReportText, ControlCharactersOfTheSampleAreDefused) {
  EXPECT_THAT(report_text(example(), "a\x1b[2Jb", "x"), Not(HasSubstr("\x1b")));
}

TEST(ReportText, LongLinesOfTheSampleAreBrokenAtSpaces) {
  const std::string text = report_text(example(), std::string(70, 'a') + " bbbbbbbbbb\nc\n", "x");
  EXPECT_THAT(text, HasSubstr("  | " + std::string(70, 'a') + "\n  | bbbbbbbbbb\n  | c\n\nFiles"));
  EXPECT_THAT(report_text(example(), std::string(100, 'a'), "x"),
              HasSubstr("  | " + std::string(76, 'a') + "\n  | " + std::string(24, 'a') + "\n"));
}

std::vector<Sample> samples() {
  std::vector<Sample> out;
  for (std::uint64_t step = 30; step <= 1200; step += 30) {
    for (const char* region : {"us-east", "eu-west", "baseline"}) {
      out.push_back(
          {double(step) / 6, region, step, step / 30, step * 1000, 5.5 - double(step) / 400, 900});
    }
  }
  return out;
}

TEST(ReportHtml, StandsAlone) {
  const std::string html = report_html(example(), samples(), "<b>text</b>");
  EXPECT_THAT(html, HasSubstr("quick&lt;start&gt;"));
  EXPECT_THAT(html, HasSubstr("&lt;b&gt;text"));
  EXPECT_THAT(html, HasSubstr("Training loss"));
  EXPECT_THAT(html, HasSubstr("Round time"));
  for (const char* reference : {"http:", "https:", "src=", "href=", "url(", "@import"}) {
    EXPECT_THAT(html, Not(HasSubstr(reference)));
  }
}

TEST(ReportHtml, SaysThatTheWanDidNotKeepUp) {
  Summary s = example();
  s.facts.wan_verdict = wan_sim::Verdict{};
  EXPECT_THAT(report_html(s, {}, ""), Not(HasSubstr("INVALID")));
  s.facts.wan_verdict->shortfall = 0.5;
  EXPECT_THAT(report_html(s, {}, ""), HasSubstr("did not keep up. INVALID"));
  EXPECT_THAT(report_text(s, "", "x"), HasSubstr("INVALID"));
}

TEST(ReportHtml, HasACurveOfTheValidationsWhereThereWereAny) {
  std::vector<Sample> observed = samples();
  EXPECT_THAT(report_html(example(), observed, ""), Not(HasSubstr("aria-label=\"Validation loss")));
  observed[0].val_loss = 5.25;
  EXPECT_THAT(report_html(example(), observed, ""), Not(HasSubstr("aria-label=\"Validation loss")))
      << "one alone is no curve";
  observed[3].val_loss = 5;
  EXPECT_THAT(report_html(example(), observed, ""), HasSubstr("aria-label=\"Validation loss"));
}

TEST(ReportHtml, HasSmallSumsTheBudgetAndTheChangesOfK) {
  Summary s = example();
  s.egress_cost = 0.00034;
  s.limits = {{.period = "day", .limit = 0.002, .spent = 0.00031, .forecast = 0}};
  s.k_changes = {{.round = 7, .from = 30, .to = 60, .text = "exchange takes <long>"}};
  const std::string html = report_html(s, {}, "");
  for (const char* shown : {"0.00034", "0.00031 of 0.0020", "egress budget a day", "30 to 60",
                            "exchange takes &lt;long&gt;"})
    EXPECT_THAT(html, HasSubstr(shown));
  EXPECT_THAT(report_text(s, "", "x"), HasSubstr("0.00034"));
}

TEST(ReportHtml, TimedStepsHaveNoLossInAnyTable) {
  Summary s = example();
  s.timed_steps = true;
  EXPECT_THAT(report_html(s, {}, ""), Not(HasSubstr("1.7171")));
}

TEST(ReportHtml, NeedsNoSamples) {
  EXPECT_THAT(report_html(example(), {}, ""), HasSubstr("</html>"));
}

TEST(ReportHtml, OfARunThatGoesOnLoadsItselfAgain) {
  View view;
  view.title = "a<b";
  view.phase = "training";
  view.steps = 1200;
  view.regions = {{.name = "us-east",
                   .step = 600,
                   .loss = 2.5,
                   .tokens_per_s = 1000,
                   .state = "compute",
                   .links = {}}};
  view.notes = {"us-east worker 0: killed"};
  const std::string html = report_html_so_far(view, samples());
  for (const char* shown : {"a&lt;b", "http-equiv=\"refresh\"", "600 of 1,200", "2.5000", "compute",
                            "worker 0: killed", "Training loss", "</html>"})
    EXPECT_THAT(html, HasSubstr(shown));
}

TEST(ReportHtml, ARegionHasOneStyleInAllCharts) {
  const std::string html = report_html(example(), samples(), "");
  // In the chart of bytes, which has no baseline, as in the chart of losses, which has one.
  const std::string bytes = html.substr(html.find("aria-label=\"Sent over the WAN"));
  EXPECT_THAT(html, HasSubstr("class=\"s0\""));
  EXPECT_THAT(bytes.substr(0, bytes.find("</svg>")), Not(HasSubstr("class=\"s0\"")));
  EXPECT_THAT(bytes, HasSubstr("class=\"s2\" stroke-dasharray=\"2 3\""));
}

TEST(Chart, HasItsFiguresInATable) {
  Chart chart{.title = "t", .x_label = "step", .y_label = "y", .series = {}};
  chart.series = {{.name = "a", .points = {{1, 10}, {2, 20}, {3, 30}}},
                  {.name = "b", .points = {{2, 5}}}};
  EXPECT_THAT(table_of(chart),
              testing::ElementsAre(testing::ElementsAre("1", "10.0000", ""),
                                   testing::ElementsAre("2", "20.0000", "5.0000"),
                                   testing::ElementsAre("3", "30.0000", "5.0000")));
  for (double x = 4; x < 1000; ++x) chart.series[0].points.emplace_back(x, x);
  EXPECT_EQ(table_of(chart).size(), 12);
  EXPECT_EQ(table_of(chart).back()[0], "999");
  EXPECT_TRUE(table_of({.title = "t", .x_label = "x", .y_label = "y", .series = {}}).empty());
}

TEST(Chart, PointsLieWithinTheFrame) {
  const std::string image = svg({"t", "x", "y", {{"a", {{0, 0}, {5, 10}}}}, false});
  EXPECT_THAT(image, HasSubstr("points=\"64.0,256.0 704.0,32.0 \""));
}

TEST(Chart, LongNamesStandWhereNoLineEnds) {
  const auto legend_y = [](double last) {
    const std::string name(60, 'n');
    const std::string image =
        svg({"t", "x", "y", {{name, {{0, 5}, {5, last}}}, {name, {{0, 10}, {5, last}}}}, true});
    const auto at = image.rfind("\" text-anchor=\"end\">" + name);
    const auto begin = image.rfind("y=\"", at) + 3;
    return std::stod(image.substr(begin));
  };
  EXPECT_LT(legend_y(0), 100);
  EXPECT_GT(legend_y(10), 200);
}

TEST(Chart, ASingleValueIsDrawn) {
  EXPECT_THAT(svg({"t", "x", "y", {{"a", {{3, 3}}}}, false}), Not(HasSubstr("nan")));
}

TEST(Chart, TicksAreRound) {
  EXPECT_THAT(ticks(0, 1200, 6), testing::ElementsAre(0, 200, 400, 600, 800, 1000, 1200));
  EXPECT_THAT(ticks(1.2, 5.7, 5), testing::ElementsAre(2, 3, 4, 5));
}

TEST(Chart, HasASizeForNarrowScreensThatFitsThem) {
  const Chart chart{"t", "x", "y", {{"a", {{0, 0}, {5, 10}}}}, false};
  EXPECT_THAT(svg(chart, kNarrow), HasSubstr("viewBox=\"0 0 360.0 260.0\""));
  EXPECT_THAT(svg(chart, kNarrow), HasSubstr("points=\"52.0,216.0 344.0,32.0 \""));
  const std::string page = html_chart(chart);
  EXPECT_THAT(page, testing::AllOf(HasSubstr("class=\"broad\""), HasSubstr("class=\"narrow\"")));
  EXPECT_THAT(std::string(kHtmlHead), Not(HasSubstr("min-width")));
}

TEST(Format, MoneyKeepsWhatASmallSumHas) {
  EXPECT_EQ(format_money(0), "0.00");
  EXPECT_EQ(format_money(12.345), "12.35");
  EXPECT_EQ(format_money(0.1), "0.10");
  EXPECT_EQ(format_money(0.0321), "0.032");
  EXPECT_EQ(format_money(0.0000012), "0.0000012");
  EXPECT_EQ(format_money(-0.0034), "-0.0034");
}

TEST(Format, QuantitiesReadWell) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(999.6), "1.00 kB");
  EXPECT_EQ(format_bytes(1'234'567), "1.23 MB");
  EXPECT_EQ(format_bytes(20.13e9), "20.1 GB");
  EXPECT_EQ(format_bytes(1e30), "1000000000000 EB");
  EXPECT_EQ(format_duration(0.5), "0.5 s");
  EXPECT_EQ(format_duration(59.4), "59 s");
  EXPECT_EQ(format_duration(252), "4 min 12 s");
  EXPECT_EQ(format_duration(7300), "2 h 1 min");
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1'048'576), "1,048,576");
}

TEST(Format, StepsBeyondThoseOfTheRunWereTakenAlone) {
  EXPECT_EQ(format_steps(1'200, 2'000), "1,200/2,000");
  EXPECT_EQ(format_steps(2'000, 2'000), "2,000/2,000");
  EXPECT_EQ(format_steps(3'860, 2'000, " of "), "2,000 of 2,000 (+1,860 alone)");
  EXPECT_EQ(format_steps(50, 0), "50");
}

}  // namespace
}  // namespace causeway::run
