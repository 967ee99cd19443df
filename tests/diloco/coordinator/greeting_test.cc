#include "diloco/coordinator/greeting.h"

#include <gtest/gtest.h>

namespace causeway::diloco {
namespace {

Greeting greeting(const std::string& region, const std::string& run_id,
                  const std::string& config = "k = 4\n") {
  return {.run_id = run_id, .region = region, .incarnation = "1", .shared_config = config};
}

TEST(Greeting, OfTheSameRunIsAccepted) {
  const Judgement judgement = judge(greeting("a", "run"), "b", serialize(greeting("b", "run")));
  EXPECT_EQ(judgement.kind, RefusalKind::none);
  EXPECT_EQ(judgement.reason, "");
}

TEST(Greeting, TellsAJoinerTheRun) {
  const Judgement judgement = judge(greeting("a", ""), "b", serialize(greeting("b", "run")));
  EXPECT_EQ(judgement.kind, RefusalKind::none);
  EXPECT_EQ(judgement.peers_run_id, "run");
}

TEST(Greeting, OfAnotherRunIsRefusedAsLineage) {
  const Judgement judgement = judge(greeting("a", "run"), "b", serialize(greeting("b", "other")));
  EXPECT_EQ(judgement.kind, RefusalKind::lineage);
  EXPECT_EQ(kind_of_refusal({inter::Errc::refused, judgement.reason}), RefusalKind::lineage);
}

TEST(Greeting, OfTheRunThatOursWasForkedFromIsRefusedAndSaysSo) {
  Greeting ours = greeting("a", "fork");
  ours.parent_run_id = "parent";
  const Judgement judgement = judge(ours, "b", serialize(greeting("b", "parent")));
  EXPECT_EQ(judgement.kind, RefusalKind::lineage);
  EXPECT_NE(judgement.reason.find("b to run parent, from which ours was forked"), std::string::npos)
      << judgement.reason;
}

TEST(Greeting, OfAnotherRunSaysWhichDirectoryMayBeEmptied) {
  const auto said = [](Round ours, Round theirs) {
    Greeting a = greeting("a", "run"), b = greeting("b", "other");
    a.version = ours;
    b.version = theirs;
    return judge(a, "b", serialize(b));
  };
  const auto has = [&](const Judgement& judgement, const std::string& clause) {
    return judgement.reason.find(clause) != std::string::npos;
  };
  const Judgement empty_there = said(18, 0), empty_here = said(0, 1);
  EXPECT_TRUE(empty_there.comes_with_nothing);
  EXPECT_TRUE(has(empty_there,
                  "a holds 18 rounds of its run, and b none of its: empty the directory of b and "
                  "start it with --join"))
      << empty_there.reason;
  EXPECT_FALSE(empty_here.comes_with_nothing);
  EXPECT_TRUE(has(empty_here,
                  "a holds none of its run, and b 1 round of its: empty the directory "
                  "of a and start it"))
      << empty_here.reason;
  EXPECT_TRUE(has(said(0, 0), "empty the directory of either"));
  EXPECT_FALSE(said(0, 0).comes_with_nothing);
  EXPECT_TRUE(has(said(3, 4), "Decide which run is to, keep a copy")) << said(3, 4).reason;
  EXPECT_FALSE(said(3, 4).comes_with_nothing);
}

TEST(Greeting, OfAForkThatHasNoRoundYetIsNotThatOfAnEmptyRun) {
  Greeting ours = greeting("a", "parent"), theirs = greeting("b", "fork");
  ours.version = 7;
  theirs.parent_run_id = "parent";
  const Judgement judgement = judge(ours, "b", serialize(theirs));
  EXPECT_FALSE(judgement.comes_with_nothing);
  EXPECT_NE(
      judgement.reason.find("b to run fork, which it says was forked from ours: to let a take"),
      std::string::npos)
      << judgement.reason;
}

TEST(Greeting, OfAnotherConfigurationIsRefusedWithTheDifference) {
  const Judgement judgement = judge(greeting("a", "run", "k = 4\nlr = 1\n"), "b",
                                    serialize(greeting("b", "run", "k = 6\nlr = 1\n")));
  EXPECT_EQ(kind_of_refusal({inter::Errc::refused, judgement.reason}), RefusalKind::configuration);
  EXPECT_EQ(judgement.reason, "configuration: k = 4 here, 6 in b");
}

TEST(Greeting, ARefusedCertificateIsKnownByItsCodeAndNotByWords) {
  EXPECT_EQ(kind_of_refusal({inter::Errc::revoked, "any"}), RefusalKind::revoked);
  EXPECT_EQ(kind_of_refusal({inter::Errc::refused, "certificate revoked"}), RefusalKind::none);
}

TEST(Greeting, UnderAnotherNameIsRefused) {
  EXPECT_EQ(judge(greeting("a", "run"), "b", serialize(greeting("c", "run"))).kind,
            RefusalKind::configuration);
}

TEST(Greeting, OfADoctorIsRefusedWithoutHarmToAnybody) {
  const Judgement judgement =
      judge(greeting("a", "run"), "b", std::string(kDoctorGreeting) + "{\"doctor\": \"b\"}");
  EXPECT_EQ(judgement.kind, RefusalKind::none);
  EXPECT_EQ(kind_of_refusal({inter::Errc::refused, judgement.reason}), RefusalKind::none);
  EXPECT_NE(judgement.reason, "");
}

TEST(Greeting, NamesTheDisk) {
  EXPECT_EQ(judge(greeting("a", "run"), "b", serialize(greeting("b", "run"))).peers_incarnation,
            "1");
}

TEST(Greeting, NamesTheProcess) {
  Greeting made = greeting("a", "run");
  EXPECT_EQ(process_in(serialize(made)), "") << "an earlier version does not";
  made.process = process_name();
  EXPECT_EQ(process_in(serialize(made)), made.process);
  EXPECT_NE(process_name(), made.process);
  made.process = std::string(65, 'x');
  EXPECT_EQ(process_in(serialize(made)), "");
  EXPECT_EQ(process_in("\xff"), "");
}

TEST(Greeting, ThatIsNotOneIsRefused) {
  EXPECT_EQ(judge(greeting("a", "run"), "b", "\xff\xff nonsense").kind, RefusalKind::configuration);
}

TEST(ConfigDifferences, NameKeysThatOnlyOneSideHas) {
  EXPECT_EQ(config_differences({"x = 1\n", "here"}, {"y = 2\n", "in b"}),
            "x = 1 here, not set in b; y = not set here, 2 in b");
}

TEST(ConfigDifferences, AreOfAReadableLengthWhateverSomebodyTells) {
  const std::string much(5'000'000, 'x');
  EXPECT_LT(config_differences({"x = 1\n", "here"}, {"x = " + much + "\n" + much, "in b"}).size(),
            2'000U);
}

TEST(ConfigDifferences, SayWhereAChosenOuterStepComesFrom) {
  const std::string text =
      config_differences({"outer.lr = 1\n", "here"}, {"outer.lr = 0.7\n", "in b"});
  EXPECT_NE(text.find("how many regions a file names and from other keys, such as "
                      "train.steps: set all of outer alike"),
            std::string::npos);
  EXPECT_EQ(config_differences({"outer.lr = 1\ntrain.k = 2\n", "here"},
                               {"outer.lr = 1\ntrain.k = 3\n", "in b"}),
            "train.k = 2 here, 3 in b");
}

}  // namespace
}  // namespace causeway::diloco
