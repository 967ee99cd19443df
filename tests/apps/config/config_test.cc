#include "apps/run/config/config.h"

#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/run/config/config_schema.h"
#include "tests/apps/temporary.h"

namespace causeway::run {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Config, FillsInDefaultsAndDerivedSettings) {
  const Config config = load_text(kSmallConfig);
  EXPECT_EQ(config.model.hidden, 4 * config.model.width);
  EXPECT_EQ(config.model.kv_heads, config.model.heads);
  EXPECT_EQ(config.data.vocabulary, config.model.vocabulary);
  EXPECT_EQ(config.sync.founder, "east");
  EXPECT_EQ(inter::to_string(config.regions[1].listen), "127.0.0.1:0");
  EXPECT_EQ(config.regions[1].workers, 1U);
}

TEST(Config, HiddenOfLlamaIsTwoThirdsOfFourWidthsRoundedUp) {
  EXPECT_EQ(load_text(kSmallConfig, {"model.family=llama", "model.width=144"}).model.hidden, 384);
  EXPECT_EQ(load_text(kSmallConfig, {"model.family=llama", "model.width=768", "model.heads=12"})
                .model.hidden,
            2048);
  EXPECT_EQ(load_text(kSmallConfig, {"model.family=llama", "model.hidden=100"}).model.hidden, 100);
}

TEST(Config, AdvertisedAddressIsTheListenAddressUnlessGiven) {
  const std::string with_listen = kSmallConfig + "listen = \"0.0.0.0:4000\"\n";
  EXPECT_EQ(inter::to_string(load_text(with_listen).regions[1].advertise), "0.0.0.0:4000");
  const Config both = load_text(with_listen + "advertise = \"west.example.org:4001\"\n");
  EXPECT_EQ(inter::to_string(both.regions[1].advertise), "west.example.org:4001");
}

TEST(Config, UnknownKeyNamesFileLineAndNearestKey) {
  EXPECT_EQ(problem_of(kSmallConfig + "worker = 2\n"),
            "run.toml:11: unknown key 'regions.worker'; did you mean 'regions.workers'?");
  EXPECT_EQ(problem_of("[model]\nlayer = 4\n" + kSmallConfig),
            "run.toml:2: unknown key 'model.layer'; did you mean 'model.layers'?");
}

TEST(Config, UnknownSectionNamesTheNearestSection) {
  EXPECT_EQ(problem_of("[modle]\nlayers = 4\n" + kSmallConfig),
            "run.toml:1: unknown section 'modle'; did you mean 'model'?");
}

TEST(Config, FarFetchedNamesGetNoSuggestion) {
  EXPECT_EQ(problem_of("[model]\nzzzzzzzzzzzzzzzz = 4\n" + kSmallConfig),
            "run.toml:2: unknown key 'model.zzzzzzzzzzzzzzzz'");
}

TEST(Config, WrongTypeSaysWhatIsAllowed) {
  EXPECT_EQ(problem_of("[model]\nlayers = \"four\"\n" + kSmallConfig),
            "run.toml:2: model.layers: must be an integer, 1 to 1024");
  EXPECT_EQ(problem_of("[model]\nlayers = 2.5\n" + kSmallConfig),
            "run.toml:2: model.layers: must be an integer, 1 to 1024");
  EXPECT_EQ(problem_of("[codec]\nfeedback = 1\n" + kSmallConfig),
            "run.toml:2: codec.feedback: must be true or false");
  EXPECT_EQ(problem_of("[model]\nlayers = 1979-05-27\n" + kSmallConfig),
            "run.toml:2: model.layers: must be an integer: 1 to 1024");
  EXPECT_EQ(problem_of("model = 3\n" + kSmallConfig),
            "run.toml:1: model: must be a section, [model]");
  EXPECT_EQ(problem_of("regions = 3\n[train]\nk=1\nsteps=1\n"),
            "run.toml:1: regions: must be a list of tables, [[regions]]");
}

TEST(Config, OutOfRangeSaysWhatIsAllowed) {
  EXPECT_EQ(problem_of("[model]\nlayers = 0\n" + kSmallConfig),
            "run.toml:2: model.layers: must be an integer, 1 to 1024");
  EXPECT_EQ(problem_of("[inner]\nbeta1 = 1.0\n" + kSmallConfig),
            "run.toml:2: inner.beta1: must be a number, 0 to below 1");
  EXPECT_EQ(problem_of("[inner]\nlr = nan\n" + kSmallConfig),
            "run.toml:2: inner.lr: must be a number, above 0 to 100");
  EXPECT_EQ(problem_of("[model]\nfamily = \"gpt3\"\n" + kSmallConfig),
            "run.toml:2: model.family: must be gpt2 or llama");
}

// With an election timeout of 0 no leader is ever elected, and with one of days none for days.
// Ranks that do not wait for each other gather one by one, and no group of them gets to a step.
TEST(Config, TimesWithWhichARunWouldStandStillAreRefused) {
  for (const char* time : {"0", "0.01", "86400"}) {
    EXPECT_EQ(problem_of("[sync]\nelection_timeout_s = " + std::string(time) + "\n" + kSmallConfig),
              "run.toml:2: sync.election_timeout_s: must be a number, 0.05 to 3600");
  }
  EXPECT_EQ(problem_of("[sync]\nelection_timeout_s = 0.05\n" + kSmallConfig), "");
  EXPECT_THAT(problem_of(kSmallConfig, {"train.rank_wait_s=0"}),
              HasSubstr("must be a number, 0.1 to 10000000"));
}

TEST(Config, ValuesThatLeaveTheRangeAsFloatsAreRefused) {
  EXPECT_THAT(problem_of("[inner]\nbeta1 = 0.99999999999\n" + kSmallConfig), HasSubstr("below 1"));
  EXPECT_THAT(problem_of("[inner]\nlr = 1e-60\n" + kSmallConfig), HasSubstr("above 0"));
}

TEST(Config, MissingRequiredKeyIsNamed) {
  EXPECT_EQ(problem_of("[data]\nfiles = [\"a\"]\n[train]\nk = 2\n[[regions]]\nname = \"a\"\n"),
            "run.toml: train.steps is missing; it must be 1 or more steps");
  EXPECT_THAT(problem_of("[[regions]]\nworkers = 1\n"),
              HasSubstr("run.toml:1: regions.name is missing"));
}

const std::string kProgramConfig = R"([train]
steps = 200
k = 20
[[regions]]
name = "east"
[[regions]]
name = "west"
)";

TEST(Config, WithoutDataItIsForAProgramAndShowsOnlyWhatAppliesToOne) {
  const Config config = load_text(kProgramConfig + "overlap_steps = 3\n");
  EXPECT_FALSE(config.built_in_trainer());
  const std::string shown = to_toml(config);
  for (const char* absent : {"[model]", "files", "lr_final", "batch", "device", "timed_step_ms"})
    EXPECT_THAT(shown, Not(HasSubstr(absent)));
  for (const char* there : {"mode = \"shared\"", "warmup_steps", "checkpoint_rounds", "spool_gib"})
    EXPECT_THAT(shown, HasSubstr(there));
  EXPECT_EQ(to_toml(load_text(shown)), shown);
  EXPECT_THAT(shared_settings(config), Not(HasSubstr("model.layers")));
}

TEST(Config, AProgramTakesTheSharedPartOfAConfigurationWithAModel) {
  const Config config = load_config_text("[model]\nwidth = 30\nheads = 4\n" + kSmallConfig,
                                         "run.toml", {}, Trainer::program);
  EXPECT_FALSE(config.built_in_trainer());
  EXPECT_EQ(to_toml(config), to_toml(load_text(kProgramConfig)));
}

TEST(Config, TheBuiltInTrainerNeedsData) {
  try {
    load_config_text(kProgramConfig, "run.toml", {}, Trainer::built_in);
    FAIL() << "must throw";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("run.toml: data.files is missing; it must be"));
    EXPECT_THAT(error.what(), HasSubstr("--worker"));
  }
}

TEST(Config, OneProcessOfAProgramSpeaksForARegion) {
  EXPECT_THAT(problem_of(kProgramConfig + "workers = 2\n"),
              HasSubstr("run.toml:8: regions[1].workers: must be 1"));
}

TEST(Config, SyntaxErrorNamesTheLine) {
  EXPECT_THAT(problem_of("[model]\nlayers = = 3\n"), HasSubstr("run.toml:2: not valid TOML"));
}

TEST(Config, SyntaxErrorsThatPeopleMakeMostSayWhatToWrite) {
  const auto of = [](const std::string& line) { return problem_of("[run]\n" + line + "\n"); };
  EXPECT_THAT(of("name = \"trip"), HasSubstr("a text ends on its line with the quote"));
  EXPECT_THAT(of("name = west"), HasSubstr("straight quotes"));
  EXPECT_THAT(of("name = trip"), HasSubstr("texts in quotes"));
  EXPECT_THAT(of("name = \xE2\x80\x9Ctrip\xE2\x80\x9D"), HasSubstr("straight quotes"));
  EXPECT_THAT(of("name = \"C:\\data\""), HasSubstr("write / instead of"));
  EXPECT_THAT(of("name = \"tr\xFFp\""), HasSubstr("save the file as UTF-8"));
  EXPECT_THAT(of("seed = 20k"), HasSubstr("numbers have no unit"));
  EXPECT_THAT(of("seed = 0.5s"), HasSubstr("numbers have no unit"));
  EXPECT_THAT(of("seed = 0,5"), HasSubstr("decimals have a point"));
  EXPECT_THAT(of("require_doctor = True"), HasSubstr("write true or false"));
  EXPECT_THAT(of("[regions]\nname = \"a\"\n[regions]"),
              HasSubstr("each region begins with [[regions]]"));
}

// A shell reads checkpoint.after, and knows whose home it is.
TEST(Config, ATildeIsNoHomeButInACommand) {
  EXPECT_THAT(problem_of("[certificates]\ndirectory = \"~/certificates\"\n"),
              HasSubstr("run.toml:2: certificates.directory: ~ is not your home here"));
  EXPECT_THAT(problem_of("[data]\nfiles = [\"a.txt\", \"~/b.txt\"]\n"),
              HasSubstr("run.toml:2: data.files: ~ is not your home here"));
  EXPECT_THAT(problem_of("[checkpoint]\nafter = \"~/bin/copy\"\n"), Not(HasSubstr("home")));
}

TEST(Config, MissingFileIsNamed) {
  const TemporaryDirectory directory;
  try {
    load_config(directory / "none.toml", {});
    FAIL() << "must throw";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("none.toml: No such file or directory; give the path"));
  }
  EXPECT_THROW(load_config(directory.path(), {}), ConfigError);
}

TEST(Config, RegionsComputeOnCpusOrGpus) {
  const Config config = load_text(kSmallConfig + "device = \"cuda\"\n");
  EXPECT_EQ(config.regions.back().device, intra::Device::cuda);
  EXPECT_EQ(worker_options(config, config.regions.back().name, 0, {}).train.device,
            intra::Device::cuda);
  EXPECT_EQ(problem_of(kSmallConfig + "device = \"tpu\"\n"),
            "run.toml:11: regions.device: must be cpu or cuda");
}

TEST(Config, ControlCharactersOfAKeyDoNotReachTheMessage) {
  EXPECT_EQ(problem_of("[model]\n\"a\\u001b[2Jb\" = 4\n" + kSmallConfig).find('\x1b'),
            std::string::npos);
}

TEST(Config, OverridesUseTheSameChecks) {
  EXPECT_EQ(load_text(kSmallConfig, {"model.layers=7"}).model.layers, 7);
  EXPECT_EQ(load_text(kSmallConfig, {"codec.matrix=dense:fp32"}).codec.matrix, "dense:fp32");
  EXPECT_EQ(load_text(kSmallConfig, {"codec.matrix=\"dense:fp32\""}).codec.matrix, "dense:fp32");
  EXPECT_EQ(load_text(kSmallConfig, {"data.files=[\"a\", \"b\"]"}).data.files,
            (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(load_text(kSmallConfig, {"regions.west.workers=2"}).regions[1].workers, 2U);
  EXPECT_EQ(problem_of(kSmallConfig, {"model.layer=7"}),
            "--set model.layer: unknown key; did you mean 'model.layers'?");
  EXPECT_EQ(problem_of(kSmallConfig, {"layers=7"}),
            "--set layers: unknown key; did you mean 'model.layers'?");
  EXPECT_EQ(problem_of(kSmallConfig, {"lr=1"}),
            "--set lr: unknown key; did you mean 'inner.lr' or 'outer.lr'?");
  EXPECT_EQ(problem_of(kSmallConfig, {"model.layers=0"}),
            "--set model.layers: must be an integer, 1 to 1024");
  EXPECT_EQ(problem_of(kSmallConfig, {"model.layers=seven"}),
            "--set model.layers: must be an integer: 1 to 1024");
  EXPECT_EQ(problem_of(kSmallConfig, {"model.layers"}),
            "--set model.layers: must be section.key=value");
  EXPECT_THAT(problem_of(kSmallConfig, {"regions.north.workers=2"}),
              HasSubstr("with NAME a region of the file"));
  EXPECT_THAT(problem_of(kSmallConfig, {"regions.west.worker=2"}),
              EndsWith("did you mean 'regions.workers'?"));
  EXPECT_EQ(problem_of(kSmallConfig, {"train.steps=201"}),
            "--set train.steps: must be a multiple of train.k, 20");
  EXPECT_THROW(load_text(kSmallConfig, {"model.layers=1\nrun.seed=2"}), ConfigError);
}

// What every key of a random allowed configuration is: half of them left at their defaults.
std::string random_config(std::mt19937_64& random) {
  const auto pick = [&](std::initializer_list<const char*> choices) {
    return std::string(choices.begin()[random() % choices.size()]);
  };
  const auto maybe = [&](const std::string& line) {
    return random() % 2 ? line + "\n" : std::string();
  };
  const auto real = [&](double low, double high) {
    return std::to_string(std::uniform_real_distribution<double>(low, high)(random));
  };
  const auto whole = [&](int low, int high) {
    return std::to_string(std::uniform_int_distribution<int>(low, high)(random));
  };
  std::string text = "[run]\n" + maybe("name = \"" + pick({"a", "Some_run-1"}) + "\"") +
                     maybe("seed = " + whole(0, 1 << 30));
  text += "[model]\n" + maybe("family = \"" + pick({"gpt2", "llama"}) + "\"") +
          maybe("layers = " + whole(1, 99)) + maybe("width = " + whole(1, 50) + "00") +
          maybe("dropout = " + real(0, 0.99)) +
          maybe("precision = \"" + pick({"fp32", "bf16"}) + "\"") +
          maybe("rope_theta = " + real(1, 1e6)) + maybe("hidden = " + whole(0, 9999)) +
          maybe("context = " + whole(1, 4096));
  text += "[data]\nfiles = [\"a \\\"b\\\"\\\\\", \"c\\u0007\\u00e9\"]\n" +
          maybe("validation_fraction = " + real(0.01, 0.9));
  text += "[inner]\n" + maybe("lr = " + real(0.001, 1) + "e-3") +
          maybe("warmup_steps = " + whole(0, 20)) +
          maybe("schedule = \"" + pick({"cosine", "linear", "constant"}) + "\"") +
          maybe("epsilon = " + real(1, 9) + "e-9");
  text += "[outer]\n" + maybe("optimizer = \"" + pick({"sgd", "nesterov"}) + "\"") +
          maybe("momentum = " + real(0, 0.99));
  text += "[codec]\n" + maybe("vector = \"" + pick({"dense:fp32", "dense:int8,block=128"}) + "\"") +
          maybe("feedback_decay = " + real(0, 1));
  text += "[train]\nbatch = 12\nsteps = 40\nk = 20\n" + maybe("bucket_mib = " + real(0.01, 100)) +
          maybe("timed_step_ms = " + whole(0, 100));
  text += "[sync]\n" + maybe("grace_min_s = " + real(0, 5)) +
          maybe("spool_gib = " + real(0.01, 100)) + maybe("founder = \"west\"");
  text += "[wan]\n" + maybe("profile = \"wan.toml\"") + "[certificates]\n" +
          maybe("directory = \"certs\"");
  text += "[[regions]]\nname = \"east\"\n" + maybe("workers = 2") + maybe("listen = \"[::1]:70\"");
  text += "[[regions]]\nname = \"west\"\n" + maybe("advertise = \"west.example:443\"");
  return text;
}

TEST(Config, ResolvedFileReloadsToTheSameSettings) {
  std::mt19937_64 random(1);
  int loaded = 0;
  for (int i = 0; i < 300; ++i) {
    const std::string text = random_config(random);
    Config config;
    try {
      config = load_text(text);
    } catch (const ConfigError&) {
      continue;  // an impossible combination
    }
    ++loaded;
    const Config again = load_text(to_toml(config));
    for (const auto& key : config_keys())
      EXPECT_EQ(key.get(again), key.get(config)) << key.name << "\n" << text;
    ASSERT_EQ(again.regions.size(), config.regions.size());
    for (std::size_t r = 0; r < config.regions.size(); ++r) {
      for (const auto& key : region_keys())
        EXPECT_EQ(key.get(again.regions[r]), key.get(config.regions[r])) << key.name;
    }
  }
  EXPECT_GT(loaded, 50);
}

TEST(Config, DamagedTextIsRefusedAndNothingElse) {
  std::mt19937_64 random(2);
  const std::string alphabet = "[]{}=.\"'#\n\\u0 9-_aex\t\0\xFF,+:";
  std::string seed;
  int refused = 0;
  for (int i = 0; i < 3'000; ++i) {
    if (i % 100 == 0) seed = random_config(random);
    std::string text = seed;
    for (std::uint64_t edits = 1 + random() % 6; edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = alphabet[random() % alphabet.size()];
          break;
        case 1:
          text.insert(at, 1, alphabet[random() % alphabet.size()]);
          break;
        default:
          text.erase(at, 1 + random() % 20);
      }
    }
    try {
      load_text(text);
    } catch (const ConfigError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1'000);
}

TEST(Config, DeepNestingIsRefusedBeforeItExhaustsTheStack) {
  std::string dotted = "a";
  for (int i = 0; i < 200'000; ++i) dotted += ".a";
  EXPECT_THROW(load_text(dotted + " = 1\n"), ConfigError);
  EXPECT_THROW(load_text("a = " + std::string(100'000, '[')), ConfigError);
  EXPECT_THROW(load_text(kSmallConfig, {"model.layers={" + dotted + "=1}"}), ConfigError);
}

TEST(WorkerOptions, IndexRegionsByName) {
  const Config config = load_text(kSmallConfig + "workers = 2\n[[regions]]\nname = \"alps\"\n");
  const intra::WorkerOptions options = worker_options(config, "west", 1, "somewhere");
  EXPECT_EQ(options.region_index, 2U);
  EXPECT_EQ(options.region_count, 3U);
  EXPECT_EQ(options.rank, 1U);
  EXPECT_EQ(options.world, 2U);
  EXPECT_EQ(options.directory, "somewhere");
  EXPECT_THROW(worker_options(config, "north", 0, "x"), ConfigError);
  EXPECT_THROW(worker_options(config, "west", 2, "x"), ConfigError);
}

TEST(ConfigurationPage, IsUpToDate) {
  std::ifstream file(CAUSEWAY_CONFIGURATION_PAGE);
  const std::string page(std::istreambuf_iterator<char>(file), {});
  EXPECT_EQ(page, reference_markdown()) << "run: causeway config > docs/configuration.md";
}

TEST(ConfigurationPage, NamesEveryKeyOnceWithAMeaning) {
  std::set<std::string> names;
  for (const auto& key : config_keys()) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name;
    EXPECT_FALSE(key.meaning.empty()) << key.name;
    EXPECT_FALSE(key.allowed.empty()) << key.name;
  }
}

}  // namespace
}  // namespace causeway::run
