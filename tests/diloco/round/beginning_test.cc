// What regions say to each other of their programs before the first round.
#include "diloco/round/beginning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace causeway::diloco {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

NamedTensors tensors(std::uint8_t values, std::int64_t width = 3) {
  return {{.name = "w", .shape = {2, width}, .values = Digest{values}},
          {.name = "b", .shape = {width}, .values = Digest{9}}};
}

Applied fresh(std::uint8_t values) {
  return {.version = 0, .state = Digest{values}};
}

// Region "b" of three, which "a" founded.
class BeginningTest : public ::testing::Test {
 protected:
  explicit BeginningTest(const std::string& self = "b",
                         InitialValues initial = InitialValues::founder) {
    begin(self, initial);
  }

  void begin(const std::string& self, InitialValues initial,
             const std::optional<Origin>& origin = {}, Round version = 0) {
    ProtocolOptions options;
    options.self = self;
    options.initial = initial;
    options.start_wait = seconds{100};
    PersistentState state;
    state.run_id = "run1";
    Membership membership;
    for (const char* name : {"a", "b", "c"}) {
      Member member{.region = name};
      if (member.region == "a") member.incarnation = "a's disk";
      membership = with(membership, member);
    }
    membership.origin = origin;
    state.raft.log = {{.term = 1, .body = membership}};
    for (Round round = 0; round < version; ++round) {
      CommitRecord record;
      record.run_id = "run1";
      record.round = round;
      state.raft.log.push_back({.term = 1, .body = record});
    }
    state.raft.committed = state.raft.log.size();
    beginning_.reset();
    region_.emplace(options, state);
    beginning_.emplace(*region_);
    region_->agreement.start(Time{0});
  }

  void attach(const NamedTensors& own, std::uint8_t state) {
    region_->worker.attach(fresh(state), std::nullopt, {}, own);
    region_->worker.ask();
    beginning_->on_attached();
    beginning_->check(seconds{1});
  }
  void connect(const std::string& peer) { region_->peers.set_up(peer, peer + "'s disk"); }
  void hear(const std::string& peer, const NamedTensors& theirs, std::uint8_t state,
            const std::optional<Snapshot>& snapshot = {}) {
    connect(peer);
    Status status;
    status.applied = fresh(state);
    status.snapshot = snapshot;
    region_->peers.hear(peer, status);
    for (const Tensors& piece : in_pieces(theirs)) beginning_->hear(peer, piece);
    beginning_->check(seconds{1});
  }
  // The message that the region ended with; empty: it did not end.
  std::string end() {
    for (const Action& action : region_->out.take()) {
      if (const auto* ended = std::get_if<EndRun>(&action)) {
        EXPECT_EQ(ended->exit_code, 2);
        return ended->message;
      }
    }
    return {};
  }

  std::optional<Region> region_;
  std::optional<Beginning> beginning_;
};

TEST_F(BeginningTest, AnotherShapeThanTheFoundersEndsTheRegionByName) {
  hear("a", tensors(1), 1);
  attach(tensors(1, 4), 2);
  EXPECT_THAT(end(), AllOf(HasSubstr("\"w\" has the shape (2, 4) here and (2, 3) in a"),
                           HasSubstr("trains another model")));
}

TEST_F(BeginningTest, AMissingAnExtraAndAMovedTensorAreNamed) {
  const NamedTensors whole = tensors(1), part{whole[0]}, turned{whole[1], whole[0]};
  EXPECT_EQ(other_tensor(whole, part, "a"), "a has no tensor \"b\", which is here");
  EXPECT_EQ(other_tensor(part, whole, "a"), "a has a tensor \"b\", which is not here");
  EXPECT_EQ(other_tensor(whole, turned, "a"), "tensor number 1 is \"w\" here and \"b\" in a");
  EXPECT_EQ(other_tensor(whole, whole, "a"), "");
}

TEST_F(BeginningTest, OfTheDigestOfWhatIsFrozenItIsSaidWhatItMeans) {
  NamedTensors here = tensors(1), there = here;
  here.push_back({.name = "lowest:frozen:0123456789ab", .shape = {1}});
  there.push_back({.name = "lowest:frozen:ba9876543210", .shape = {1}});
  EXPECT_THAT(other_tensor(here, there, "a"),
              AllOf(HasSubstr("a has no tensor \"lowest:frozen:0123456789ab\", which is here"),
                    HasSubstr("its frozen parameters have other values than those here: another "
                              "checkpoint, or random ones of another seed")));
}

TEST_F(BeginningTest, ListsOfTensorsCrossAsTheyAre) {
  NamedTensors list = tensors(1);
  list[1].values.reset();
  list.push_back({.name = "scalar", .shape = {}});
  EXPECT_EQ(parse_tensors(serialize(list)), list);
  EXPECT_THROW(parse_tensors("\x0a\xff"), std::system_error);
}

// As of a mixture of experts: a message takes 4 MiB, and looking for each name takes too long.
TEST_F(BeginningTest, AModelOfVeryManyTensorsIsToldInPieces) {
  NamedTensors many;
  for (int i = 0; i < 100'000; ++i) {
    many.push_back({.name = "layers.experts." + std::to_string(i) + ".weight",
                    .shape = {64, 64},
                    .values = Digest{1}});
  }
  const std::vector<Tensors> pieces = in_pieces(many);
  EXPECT_GT(pieces.size(), 5U);
  NamedTensors told;
  for (const Tensors& piece : pieces) {
    const std::string bytes = serialize(Message(piece));
    EXPECT_LT(bytes.size(), 2U << 20);
    const Tensors read = std::get<Tensors>(parse_message(bytes));
    EXPECT_EQ(read.earlier, told.size());
    EXPECT_EQ(read.total, many.size());
    told.insert(told.end(), read.tensors.begin(), read.tensors.end());
  }
  EXPECT_EQ(told, many);
  hear("a", many, 1);
  NamedTensors own = many;
  own.back().shape = {64};
  attach(own, 1);
  EXPECT_THAT(end(), HasSubstr("experts.99999.weight\" has the shape (64) here and (64, 64) in a"));
}

TEST_F(BeginningTest, WithoutItsLastPieceAListIsNone) {
  attach(tensors(1), 1);
  connect("a");
  Tensors piece{.tensors = {tensors(1)[0]}, .earlier = 0, .total = 2};
  beginning_->hear("a", piece);
  beginning_->check(seconds{1});
  attach(tensors(1), 1);
  EXPECT_EQ(end(), "");
  EXPECT_FALSE(beginning_->fits("a"));
  piece = {.tensors = {tensors(1)[1]}, .earlier = 1, .total = 2};
  beginning_->hear("a", piece);
  EXPECT_TRUE(beginning_->fits("a"));
}

// Or a member that lies could tell of ever more, and never come to the end.
TEST_F(BeginningTest, AListThatNoWorkerHasIsNotKept) {
  NamedTensors endless;
  for (int i = 0; i < 9; ++i)
    endless.push_back({.name = std::to_string(i), .shape = std::vector<std::int64_t>(1 << 20, 1)});
  attach(endless, 1);
  hear("a", endless, 1);
  EXPECT_FALSE(beginning_->fits("a"));
  endless.pop_back();
  endless.pop_back();
  attach(endless, 1);
  hear("a", endless, 1);
  EXPECT_TRUE(beginning_->fits("a")) << "it began again";
}

// It would be looked for at a place that the other list does not have.
TEST_F(BeginningTest, AListWithANameTwiceIsRefused) {
  const NamedTensors twice{tensors(1)[0], tensors(1)[0], tensors(1)[0]};
  EXPECT_THROW(parse_message(serialize(Message(Tensors{.tensors = twice}))), std::system_error);
  EXPECT_EQ(other_tensor({twice[0]}, twice, "a"), "a has a name twice");
}

TEST_F(BeginningTest, OtherShapesThanThoseOfWhoeverElseEndNothing) {
  attach(tensors(1), 1);
  hear("c", tensors(1, 4), 2);
  EXPECT_EQ(end(), "");
}

TEST_F(BeginningTest, LaterWhatMostOfTheMembersTrainIsRight) {
  begin("b", InitialValues::founder, {}, 1);
  attach(tensors(1, 4), 2);
  hear("a", tensors(1), 1);
  hear("removed", tensors(1), 1);
  EXPECT_EQ(end(), "");
  hear("c", tensors(1), 1);
  EXPECT_THAT(end(), HasSubstr("\"w\" has the shape (2, 4) here and (2, 3) in a"));
}

TEST_F(BeginningTest, WithOtherValuesItWaitsForTheFounders) {
  attach(tensors(2), 2);
  connect("c");
  hear("a", tensors(1), 1);
  EXPECT_EQ(end(), "");
  EXPECT_TRUE(beginning_->holds_back(seconds{1000}));
  EXPECT_EQ(beginning_->waiting_for(seconds{1000}), "the initial values of a");
  EXPECT_FALSE(beginning_->needs_initial_snapshot());
}

// A worker that comes after the others have agreed is told all the same what it takes.
TEST_F(BeginningTest, OtherValuesAreNamedAlsoWhenTheLogHasTheFounders) {
  for (const std::string run_id : {"", "forked"}) {
    begin("b", InitialValues::founder,
          Origin{.run_id = run_id, .version = 0, .state = fresh(1).state, .blob = {}});
    hear("a", tensors(1), 1);
    attach(tensors(2), 2);
    bool noted = false;
    for (const Action& action : region_->out.take()) {
      const auto* note = std::get_if<Note>(&action);
      noted = noted ||
              (note != nullptr && note->text.find("other initial values") != std::string::npos);
    }
    EXPECT_EQ(noted, run_id.empty());
  }
}

TEST_F(BeginningTest, TheFirstRoundWaitsForWhoCanBeReachedAndHasNoWorkerYet) {
  attach(tensors(1), 1);
  hear("a", tensors(1), 1);
  EXPECT_FALSE(beginning_->holds_back(seconds{2}));  // c cannot be reached
  connect("c");
  EXPECT_TRUE(beginning_->holds_back(seconds{2}));
  EXPECT_THAT(beginning_->waiting_for(seconds{2}),
              AllOf(HasSubstr("the workers of c to start"), HasSubstr("at most 100 s")));
  EXPECT_EQ(beginning_->deadline(), seconds{101});
  EXPECT_FALSE(beginning_->holds_back(seconds{101}));
  hear("c", tensors(1), 1);
  EXPECT_FALSE(beginning_->holds_back(seconds{2}));
}

TEST_F(BeginningTest, TheFoundersStateIsProposedOnceItsSnapshotIsThere) {
  attach(tensors(2), 2);
  hear("a", tensors(1), 1);
  EXPECT_EQ(beginning_->proposal(), std::nullopt);
  const Snapshot snapshot{.version = 0, .state = Digest{1}, .blob = {.size_bytes = 80}};
  hear("a", tensors(1), 1, snapshot);
  const std::optional<Membership> proposal = beginning_->proposal();
  ASSERT_TRUE(proposal);
  EXPECT_EQ(proposal->members, region_->agreement.members().members);
  EXPECT_EQ(proposal->origin,
            (Origin{.run_id = "", .version = 0, .state = snapshot.state, .blob = snapshot.blob}));
}

TEST_F(BeginningTest, NothingIsProposedWhereAllBringTheSame) {
  attach(tensors(1), 1);
  hear("a", tensors(1), 1, Snapshot{.version = 0, .state = Digest{1}, .blob = {.size_bytes = 80}});
  hear("c", tensors(1), 1);
  EXPECT_EQ(beginning_->proposal(), std::nullopt);
}

struct Founder : BeginningTest {
  Founder() : BeginningTest("a") {}
};

TEST_F(Founder, OffersItsValuesAndTakesNobodys) {
  attach(tensors(1), 1);
  hear("b", tensors(2), 2);
  hear("c", tensors(1, 4), 3);
  EXPECT_TRUE(beginning_->needs_initial_snapshot());
  EXPECT_EQ(end(), "");
  EXPECT_FALSE(beginning_->holds_back(seconds{2}));
}

struct Equal : BeginningTest {
  Equal() : BeginningTest("b", InitialValues::equal) {}
};

TEST_F(Equal, OtherValuesEndTheRegionWithTheTensorAndBothRegions) {
  attach(tensors(2), 2);
  hear("a", tensors(1), 1);
  EXPECT_THAT(end(), AllOf(HasSubstr("\"w\" has other initial values in b than in a"),
                           HasSubstr("set the same seed")));
}

}  // namespace
}  // namespace causeway::diloco
