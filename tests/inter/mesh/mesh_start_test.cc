// What ends a link, or a mesh, before it is up: a greeting that is refused, an address, a
// credential.
#include "inter/base/error.h"
#include "inter/mesh/mesh.h"
#include "tests/inter/mesh/mesh_fixture.h"

namespace causeway::inter {
namespace {

using testing::HasSubstr;

class GreetingTest : public MeshTest {
 protected:
  void start(const std::string& verdict_of_a, const std::string& verdict_of_b) {
    MeshOptions listener = options("b");
    point(listener, "a", 1);
    Region& b = add(listener);
    b.verdict = verdict_of_b;
    b.mesh->start();
    MeshOptions dialler = options("a");
    point(dialler, "b", b.mesh->listening_port());
    Region& a = add(dialler);
    a.verdict = verdict_of_a;
    a.mesh->start();
  }
  Region& b() const { return *regions_[0]; }
  Region& a() const { return *regions_[1]; }
};

TEST_F(GreetingTest, ListenersRefusalReachesBothSides) {
  start("", "K differs:\n- k = 10\n+ k = 20");
  ASSERT_TRUE(run_until([&] { return !a().refusals.empty(); }));
  EXPECT_EQ(a().refusals[0], "b:K differs:\n- k = 10\n+ k = 20");
  ASSERT_TRUE(run_until([&] {
    return log_.has("refused 127.0.0.1:") && log_.has("we refuse a: K differs") &&
           log_.has("b refused us: K differs");
  }));
  EXPECT_EQ(a().ups + b().ups, 0);
}

TEST_F(GreetingTest, DiallersRefusalReachesBothSides) {
  start("another run", "");
  ASSERT_TRUE(run_until([&] { return !b().refusals.empty(); }));
  EXPECT_EQ(b().refusals[0], "a:another run");
  ASSERT_TRUE(run_until([&] {
    return log_.has("we refuse b: another run") && log_.has("a refused us: another run");
  }));
  EXPECT_EQ(a().ups + b().ups, 0);
}

TEST_F(GreetingTest, RefusalIsJudgedAnewAtEveryAttempt) {
  start("", "not yet");
  ASSERT_TRUE(run_until([&] { return a().refusals.size() >= 2; }));
  b().verdict = "";
  EXPECT_TRUE(run_until([&] { return a().mesh->is_up("b") && b().mesh->is_up("a"); }));
}

class T8Address : public MeshTest {};

TEST_F(T8Address, ListensAndDialsByIpv6AddressAndByName) {
  for (const std::string host : {"::1", "localhost"}) {
    MeshOptions listener = options("b");
    listener.bind = {host, 0};
    point(listener, "a", 1);
    Region& b = add(listener);
    try {
      b.mesh->start();
    } catch (const std::system_error& error) {
      GTEST_SKIP() << error.what();  // a host without IPv6
    }
    MeshOptions dialler = options("a");
    dialler.peers["b"] = {host, b.mesh->listening_port()};
    Region& a = add(dialler);
    a.mesh->start();
    EXPECT_TRUE(run_until([&] { return a.ups == 1 && b.ups == 1; })) << host;
  }
  EXPECT_TRUE(log_.has("b is up at [::1]:")) << log_.text();
}

TEST_F(T8Address, BindFailureNamesTheAddress) {
  MeshOptions first = options("a");
  Region& a = add(first);
  a.mesh->start();
  MeshOptions second = options("b");
  second.bind.port = a.mesh->listening_port();
  Region& b = add(second);
  try {
    b.mesh->start();
    ADD_FAILURE() << "two meshes on one port";
  } catch (const std::system_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("127.0.0.1:" + std::to_string(second.bind.port)));
  }
}

TEST_F(MeshTest, UnusableCredentialNamesTheFile) {
  MeshOptions broken = options("a");
  broken.credentials.key = pki_.credentials("b").key;
  try {
    add(broken).mesh->start();
    ADD_FAILURE() << "another region's key was accepted";
  } catch (const std::system_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("b.key"));
  }
  MeshOptions foreign = options("a");
  foreign.credentials = pki_.credentials("b");
  try {
    add(foreign).mesh->start();
    ADD_FAILURE() << "another region's certificate was accepted";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), Errc::bad_name);
  }
}

}  // namespace
}  // namespace causeway::inter
