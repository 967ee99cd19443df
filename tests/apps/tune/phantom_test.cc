// Tunings of models that are not here, in regions that no configuration names.
#include "apps/run/tune/phantom.h"

#include <set>
#include <string>
#include <tuple>

#include <gmock/gmock.h>

#include "tests/apps/tune/tune_fixture.h"

namespace causeway::run {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

inline const char* const kPlaces = R"(
regions = ['ca', 'fi', 'us']
[defaults]
rtt_ms = 100
rate_mbit_s = 1000
[[link]]
a = 'fi'
b = 'us'
rate_mbit_s = 4000
)";

class PhantomTest : public TuneTest {
 protected:
  // 10 billion parameters, whose payload of 10.2 GB takes 81 s over the slower links.
  TuneOptions asked() {
    TuneOptions options;
    options.links = write("places.toml", kPlaces);
    options.cache = directory_.path() / "cache";
    options.phantom = {.parameters = 10e9, .codec_bytes_per_s = 200e9, .disk_bytes_per_s = 20e9};
    options.step_s = 10;
    options.rounds = 2;
    options.codecs = {"dense:int8,block=128"};
    options.grid.ks = {100};
    options.grid.variants = {diloco::tuner::Variant::synchronous};
    return options;
  }
  static wan_sim::Scenario places() { return wan_sim::parse_scenario(kPlaces, "places.toml"); }
};

TEST_F(PhantomTest, PayloadsAndTimesAreThoseOfTheWholeModel) {
  const Tuning tuning = tuned(asked());
  EXPECT_EQ(tuning.regions, (std::vector<std::string>{"ca", "fi", "us"}));
  const CodecProbe& codec = tuning.probe.codecs.front();
  EXPECT_NEAR(double(codec.payload_bytes), 10e9 * 8.125 / 8, 1e6);
  EXPECT_NEAR(codec.encode_s, 0.2, 1e-9);
  EXPECT_NEAR(codec.apply_s, 3 * 0.2, 1e-9);
  const double save_s = tuning.probe.save_s;  // of this machine, which may be busy
  EXPECT_NEAR(codec.store_s - save_s, 10.16 / 20, 0.01);
  const diloco::tuner::Row& row = tuning.forecast.rows.front();
  ASSERT_TRUE(row.complete);
  EXPECT_NEAR(row.round_s, 1000 + 81.4 + 2, 2 + 10 * save_s);
  EXPECT_DOUBLE_EQ(row.participation, 1);
}

TEST_F(PhantomTest, SaysWhereItCountsThisMachineForThoseOfTheRegions) {
  TuneOptions options = asked();
  EXPECT_THAT(tuned(options).warnings, Not(Contains(HasSubstr("--codec-gb-s"))));
  options.phantom.codec_bytes_per_s = 0;
  const Tuning tuning = tuned(options);
  EXPECT_THAT(tuning.warnings, Contains(HasSubstr("--codec-gb-s")));
  EXPECT_GT(tuning.probe.codecs.front().encode_s, 0.2);
}

// Direct payloads of every region leave by one door.
TEST_F(PhantomTest, ARegionsLinksShareWhatItSendsInAll) {
  TuneOptions options = asked();
  options.phantom.regions = 8;
  options.overrides = {"sync.grace_min_s=3600", "sync.grace_max_s=3600"};  // waits for all
  const double alone_s = tuned(options).forecast.rows.front().round_s;
  options.phantom.region_bytes_per_s = 125e6;
  const double shared_s = tuned(options).forecast.rows.front().round_s;
  const double payload_s = 10.156e9 / 125e6;
  EXPECT_NEAR(shared_s - alone_s, 6 * payload_s, 0.1 * payload_s);
}

TEST_F(PhantomTest, ManyRegionsAreToldOfShardedRoundsWhichSendThreePayloads) {
  TuneOptions options = asked();
  const auto advice = Contains(HasSubstr("sync.exchange"));
  EXPECT_THAT(tuned(options).warnings, Not(advice)) << "three regions";
  options.phantom.regions = 8;
  options.overrides = {"sync.grace_min_s=3600", "sync.grace_max_s=3600"};  // waits for all
  const Tuning full = tuned(options);
  EXPECT_THAT(full.warnings, Contains(HasSubstr("its payload to 7 others")));
  options.overrides.emplace_back("sync.exchange='sharded'");
  const Tuning sharded = tuned(options);
  EXPECT_THAT(sharded.warnings, Not(advice));
  const double payload_bytes = double(full.probe.codecs.front().payload_bytes);
  EXPECT_NEAR(full.forecast.rows.front().sent_bytes / payload_bytes / 8, 7, 0.1);
  EXPECT_LT(sharded.forecast.rows.front().sent_bytes / payload_bytes / 8, 3);
  EXPECT_LT(sharded.forecast.rows.front().round_s, full.forecast.rows.front().round_s);
}

TEST_F(PhantomTest, FullAndShardedRoundsAreComparedInOneTable) {
  using diloco::ExchangeKind;
  TuneOptions options = asked();
  options.phantom.regions = 8;
  options.overrides = {"sync.grace_min_s=3600", "sync.grace_max_s=3600"};  // waits for all
  options.grid.exchanges = {ExchangeKind::sharded, ExchangeKind::full};
  const Tuning both = tuned(options);
  ASSERT_EQ(both.forecast.rows.size(), 2U);
  const auto &full = both.forecast.rows[0], &sharded = both.forecast.rows[1];
  const double payload_bytes = double(both.probe.codecs.front().payload_bytes);
  EXPECT_NEAR(full.sent_bytes / payload_bytes / 8, 7, 0.1);
  EXPECT_LT(sharded.sent_bytes / payload_bytes / 8, 3);
  EXPECT_EQ(both.recommended().exchange, ExchangeKind::sharded);
  EXPECT_THAT(both.settings, Contains("sync.exchange = \"sharded\""));
  EXPECT_THAT(both.warnings, Not(Contains(HasSubstr("to 7 others")))) << "it was compared";
  EXPECT_THAT(both.warnings, Contains(HasSubstr("round each sum once more")));
  EXPECT_THAT(tuning_json(both), HasSubstr("\"exchange\": \"sharded\""));
  EXPECT_THAT(tuning_text(both), HasSubstr("synchronous, sharded"));
}

TEST_F(PhantomTest, ShardedRoundsAreTriedOnlyWhereTheyCanBe) {
  using diloco::ExchangeKind;
  using diloco::tuner::Variant;
  TuneOptions options = asked();
  options.grid.exchanges = {ExchangeKind::full, ExchangeKind::sharded};
  options.codecs = {"dense:int8,block=128", "topk:k=64,value=2bit"};
  options.grid.variants = {Variant::synchronous, Variant::eager};
  std::set<std::tuple<std::string, Variant, ExchangeKind>> tried;
  for (const auto& row : tuned(options).forecast.rows)
    tried.emplace(row.codec.substr(0, 4), row.overlap.variant, row.exchange);
  EXPECT_THAT(tried, testing::UnorderedElementsAre(
                         std::tuple("dens", Variant::synchronous, ExchangeKind::full),
                         std::tuple("dens", Variant::synchronous, ExchangeKind::sharded),
                         std::tuple("dens", Variant::eager, ExchangeKind::full),
                         std::tuple("topk", Variant::synchronous, ExchangeKind::full),
                         std::tuple("topk", Variant::eager, ExchangeKind::full)));
}

TEST_F(PhantomTest, AConfigurationGivesTheRunAndItsModelIsNotLookedAt) {
  TuneOptions options = asked();
  options.config = write("config.toml", std::string(kConfig) + "[codec]\nmatrix = 'dense:2bit'\n");
  options.links = write("links.toml",
                        "regions = ['us', 'eu']\n[defaults]\nrtt_ms = 100\n"
                        "rate_mbit_s = 1000\n");
  options.codecs.clear();
  const Tuning tuning = tuned(options);
  EXPECT_EQ(tuning.regions, (std::vector<std::string>{"us", "eu"}));
  EXPECT_EQ(tuning.steps, 1200U);
  EXPECT_EQ(tuning.probe.parameters, 10'000'000'000U);
  EXPECT_EQ(tuning.probe.codecs.front().codec, "dense:2bit");
}

TEST_F(PhantomTest, FurtherRegionsStandAtTheSamePlaces) {
  const wan_sim::Scenario links = with_regions(places(), 7);
  EXPECT_THAT(links.regions,
              ElementsAre("ca", "fi", "us", "ca-site2", "fi-site2", "us-site2", "ca-site3"));
  const auto rate = [&](const std::string& from, const std::string& to) {
    return links.links.at({from, to}).rate_bytes_per_s;
  };
  EXPECT_EQ(rate("ca-site2", "fi"), rate("ca", "fi"));
  EXPECT_EQ(rate("us-site2", "fi-site2"), rate("us", "fi"));
  EXPECT_EQ(rate("ca-site2", "ca-site3"), rate("fi", "us")) << "the best of all";
  EXPECT_THAT(with_regions(places(), 2).regions, ElementsAre("ca", "fi"));
  EXPECT_EQ(with_regions(places(), 0).regions, places().regions);
}

TEST_F(PhantomTest, LinksThatOnlyPacketsKnowAreTakenAsLongTransfersFindThem) {
  std::string lossy = kPlaces;
  lossy.insert(lossy.find("[[link]]"), "loss = 1e-3\ncongestion = 'cubic'\njitter_ms = 3\n");
  std::vector<std::string> warnings;
  const wan_sim::Scenario links =
      links_of_phantom(write("lossy.toml", lossy), {}, {"ca", "fi", "us"}, warnings);
  EXPECT_THAT(warnings, Contains(HasSubstr("left out: congestion, loss")));
  const wan_sim::LinkProfile link = links.links.at({"fi", "us"});
  EXPECT_EQ(link.rate_bytes_per_s, 500e6);
  EXPECT_EQ(link.delay, std::chrono::milliseconds(50));
  EXPECT_NE(link.jitter, wan_sim::JitterProfile());
  EXPECT_EQ(link.loss, wan_sim::LossProfile());
  EXPECT_EQ(link.congestion, wan_sim::Congestion::none);

  TuneOptions options = asked();
  options.links = directory_.path() / "lossy.toml";
  const Tuning tuning = tuned(options);
  EXPECT_THAT(tuning.warnings, Contains(HasSubstr("left out: congestion, loss")));
  EXPECT_TRUE(tuning.forecast.rows.front().complete);
}

class PhantomRefusesTest : public PhantomTest {
 protected:
  void refuses(const TuneOptions& options, const std::string& part) {
    EXPECT_THAT([&] { tuned(options); }, ThrowsMessage<ConfigError>(HasSubstr(part)));
  }
};

TEST_F(PhantomRefusesTest, WhatNeedsAModel) {
  TuneOptions options = asked();
  options.step_s = 0;
  refuses(options, "--parameters: needs --step-ms");
  options = asked();
  options.calibrate_s = 10;
  refuses(options, "leave out --calibrate");
}

TEST_F(PhantomRefusesTest, RegionsThatNothingPlaces) {
  TuneOptions options = asked();
  options.links.clear();
  refuses(options, "--links: is missing");
  options = asked();
  options.phantom.regions = 65;
  refuses(options, "must be 64 or fewer");
  options.phantom.regions = 4;
  options.links = write("faulty.toml", std::string(kPlaces) +
                                           "[[event]]\nat_s = 5\npair = ['ca', 'fi']\n"
                                           "fault = 'black-hole'\nfor_s = 5\n");
  refuses(options, "has 3 regions with events");
}

TEST_F(PhantomRefusesTest, RegionsThatCannotMakeARound) {
  TuneOptions options = asked();
  options.phantom.regions = 2;
  options.config = write("many.toml",
                         "[run]\nname = 'many'\n[train]\nsteps = 100\nk = 10\n"
                         "[sync]\ncontributions_min = 3\n"
                         "[[regions]]\nname = 'a'\n[[regions]]\nname = 'b'\n"
                         "[[regions]]\nname = 'c'\n");
  refuses(options, "no round would be complete");
}

TEST_F(PhantomRefusesTest, PlacesWithTheNamesOfFurtherOnes) {
  wan_sim::Scenario links = places();
  links.regions = {"ca", "ca-site2"};
  EXPECT_THAT([&] { with_regions(links, 3); }, ThrowsMessage<ConfigError>(HasSubstr("rename it")));
}

}  // namespace
}  // namespace causeway::run
