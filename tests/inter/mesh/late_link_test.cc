// Links that stand and answer, but far too late: messages go by way of a third region meanwhile.
#include <algorithm>

#include "inter/mesh/mesh.h"
#include "tests/inter/mesh/mesh_fixture.h"

namespace causeway::inter {
namespace {

// "a" and "b" are linked by way of a proxy that can delay control, and each is linked to "c".
class LateLinkTest : public MeshTest {
 protected:
  LateLinkTest() {
    c_ = &start("c", 1, 1);
    b_ = &start("b", 1, c_->mesh->listening_port());
    proxy_ = std::make_shared<CutProxy>(context_, b_->mesh->listening_port());
    proxy_->accept();
    a_ = &start("a", proxy_->port(), c_->mesh->listening_port());
    EXPECT_TRUE(run_until([&] { return meet("") && c_->ups == 2; }));
  }
  ~LateLinkTest() override { proxy_->close(); }

  // The first port is that of the other one of "a" and "b", or of both for "c".
  Region& start(const std::string& self, std::uint16_t other, std::uint16_t third) {
    MeshOptions made = options(self);
    made.detour_delay = std::chrono::milliseconds(20);
    made.late_answer = std::chrono::milliseconds(400);
    made.data_connections = 2;
    made.idle_deadline = std::chrono::minutes(1);
    for (const std::string name : {"a", "b", "c"}) {
      if (name != self) {
        point(made, name, name == "c" ? third : other);
      }
    }
    Region& region = add(made);
    region.mesh->start();
    return region;
  }
  // The link stands, and messages go this way.
  bool meet(const std::string& via) const {
    const LinkStats at_a = a_->mesh->stats().at("b"), at_b = b_->mesh->stats().at("a");
    return at_a.up && at_b.up && at_a.via == via && at_b.via == via;
  }
  void expect_messages(const std::string& text) {
    a_->mesh->send("b", text);
    b_->mesh->send("a", text);
    EXPECT_TRUE(run_until([&] { return heard(*a_, "b:" + text) && heard(*b_, "a:" + text); }));
  }
  void expect_one_link() const {
    EXPECT_EQ(a_->mesh->stats().at("b").connects, 1U) << log_.text();
    EXPECT_EQ(b_->mesh->stats().at("a").connects, 1U);
  }
  static bool heard(const Region& region, const std::string& message) {
    return std::ranges::find(region.messages, message) != region.messages.end();
  }

  std::shared_ptr<CutProxy> proxy_;
  Region* a_ = nullptr;
  Region* b_ = nullptr;
  Region* c_ = nullptr;
};

TEST_F(LateLinkTest, MessagesGoByAThirdRegionAndPayloadsOverTheLink) {
  proxy_->stall_first({});
  ASSERT_TRUE(run_until([&] { return meet("c"); })) << log_.text();
  EXPECT_EQ(a_->ways["b"], "") << "payloads still go over the link";
  expect_messages("by way of c");
  const BlobId id = a_->spool.put(make_bytes(100'000));
  a_->mesh->push_blob("b", id);
  EXPECT_TRUE(run_until([&] { return b_->spool.has(id); }));
  EXPECT_TRUE(c_->blobs.empty());
  EXPECT_TRUE(meet("c")) << "still";
}

TEST_F(LateLinkTest, ItCarriesThemWhenItIsWellAgain) {
  proxy_->stall_first({});
  a_->mesh->send("b", "stale");
  ASSERT_TRUE(run_until([&] { return meet("c"); })) << log_.text();
  expect_messages("by way of c");
  proxy_->resume();
  ASSERT_TRUE(run_until([&] { return meet(""); })) << log_.text();
  EXPECT_TRUE(log_.has("its answers come in time again"));
  expect_messages("directly");
  EXPECT_FALSE(heard(*b_, "a:stale")) << "what was said since says otherwise, perhaps";
  expect_one_link();
}

TEST_F(LateLinkTest, TheThirdRegionsEndIsNotThatOfTheLink) {
  proxy_->stall_first({});
  ASSERT_TRUE(run_until([&] { return meet("c"); })) << log_.text();
  a_->mesh->send("b", "stale");
  stop(*c_->mesh);
  ASSERT_TRUE(run_until([&] { return !a_->mesh->stats().at("c").up && meet(""); }));
  const BlobId id = a_->spool.put(make_bytes(100'000));
  a_->mesh->push_blob("b", id);
  proxy_->resume();
  expect_messages("over the same link");
  EXPECT_TRUE(run_until([&] { return b_->spool.has(id); }));
  expect_one_link();
}

TEST_F(LateLinkTest, AnotherDetourTakesThePlaceOfOneThatIsLost) {
  proxy_->stall_first({});
  for (const std::string text : {"one", "two", "three"}) {
    ASSERT_TRUE(run_until([&] { return meet("c"); })) << log_.text();
    expect_messages(text);
    c_->mesh->set_peers({{"a", {"127.0.0.1", 1}}});
    ASSERT_TRUE(run_until([&] { return meet(""); }));
    c_->mesh->set_peers({{"a", {"127.0.0.1", 1}}, {"b", {"127.0.0.1", 1}}});
  }
  expect_one_link();
  EXPECT_LT(log_.count("a: b is up, but"), a_->downs.size()) << "the third is no news";
}

}  // namespace
}  // namespace causeway::inter
