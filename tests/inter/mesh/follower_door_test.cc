// Whoever shows a follower's certificate at a coordinator's port reaches no link, whatever it says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "inter/frame/frame_body.h"
#include "tests/inter/mesh/mesh_fixture.h"
#include "tests/inter/mesh/rogue.h"

namespace causeway::inter {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::SizeIs;

// "b" listens and expects "a".
class FollowerDoor : public MeshTest {
 protected:
  FollowerDoor() {
    add_follower(pki_.path(), "reader");
    MeshOptions listener = options("b");
    point(listener, "a", 1);
    add(listener).shown = "how b is";
    regions_[0]->mesh->start();
  }
  Outcome say(const std::string& certificate, const Hello& hello) {
    const Bytes frame = encode(hello);
    const std::string text(reinterpret_cast<const char*>(frame.data()), frame.size());
    return rogue_tls(context_, regions_[0]->mesh->listening_port(), {pki_.credentials(certificate)},
                     text);
  }
};

TEST_F(FollowerDoor, AFollowerIsHandedOnBeforeItIsHeard) {
  std::vector<Outcome> rogues;
  for (const auto kind : {ConnectionKind::control, ConnectionKind::data, ConnectionKind::observer,
                          ConnectionKind::detour, ConnectionKind::follower})
    for (const std::string name : {"a", "reader.follower"})
      rogues.push_back(say("reader", {kind, {1}, name, "greeting of a"}));
  EXPECT_TRUE(run_until(
      [&] { return std::ranges::all_of(rogues, [](const Outcome& one) { return one->ended; }); }));
  EXPECT_THAT(regions_[0]->followers, SizeIs(rogues.size()));
  EXPECT_THAT(regions_[0]->followers, Each("reader.follower"));
  for (const Outcome& one : rogues) EXPECT_EQ(one->received, "");
  EXPECT_TRUE(regions_[0]->greetings.empty());
  EXPECT_EQ(regions_[0]->ups, 0);
}

TEST_F(FollowerDoor, ARegionIsNoFollower) {
  const auto rogue = say("a", {ConnectionKind::follower, {}, "a", {}});
  EXPECT_TRUE(run_until([&] { return rogue->ended; }));
  EXPECT_THAT(rogue->received, HasSubstr("as a follower with the certificate of a region"));
  EXPECT_TRUE(regions_[0]->followers.empty());
}

}  // namespace
}  // namespace causeway::inter
