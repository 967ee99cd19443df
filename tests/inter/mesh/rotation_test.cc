// Credentials that change under a running mesh: revocation and renewal.
#include "tests/inter/mesh/mesh_fixture.h"
#include "tests/inter/mesh/rogue.h"

namespace causeway::inter {
namespace {

class Rotation : public MeshTest {
 protected:
  // "b" listens to "a" and "c".
  Rotation() {
    MeshOptions listener = quick("b");
    point(listener, "a", 1);
    listener.peers["c"] = {};
    add(listener).mesh->start();
    start("a", false);
    start("c", true);
    EXPECT_TRUE(run_until([&] { return b().ups == 2; }));
  }
  MeshOptions quick(const std::string& self) {
    MeshOptions made = options(self);
    made.credentials_interval = std::chrono::milliseconds(20);
    return made;
  }
  void start(const std::string& self, bool dial_only) {
    MeshOptions dialler = quick(self);
    dialler.dial_only = dial_only;
    point(dialler, "b", b().mesh->listening_port());
    add(dialler).mesh->start();
  }
  Region& b() const { return *regions_[0]; }
  Region& a() const { return *regions_[1]; }
  Region& c() const { return *regions_[2]; }
};

TEST_F(Rotation, RevokedPeerIsDroppedAndRefusedAndTheOthersStay) {
  revoke_region(pki_.path(), "a");
  ASSERT_TRUE(run_until([&] { return !b().downs.empty(); }));
  EXPECT_EQ(b().downs[0], "a:the peer's certificate was revoked");
  ASSERT_TRUE(run_until([&] {
    return log_.has("the peer's certificate (CN = a) was refused: certificate revoked");
  }));
  EXPECT_TRUE(log_.has("b: refused 127.0.0.1:"));
  EXPECT_TRUE(b().mesh->is_up("c"));
  b().mesh->send("c", "still here");
  EXPECT_TRUE(run_until([&] { return !c().messages.empty(); }));
  EXPECT_EQ(b().downs.size(), 1U);
}

TEST_F(Rotation, RevokedPeerReturnsWithANewCertificateWithoutAnybodysRestart) {
  revoke_region(pki_.path(), "a");
  ASSERT_TRUE(run_until([&] { return !b().downs.empty(); }));
  renew_region(pki_.path(), "a");
  EXPECT_TRUE(run_until([&] { return b().mesh->is_up("a"); }));
}

TEST_F(Rotation, RevocationAlsoMeansACertificateThatWasRenewedAway) {
  const std::filesystem::path older = pki_.path() / "older.crt";
  std::filesystem::copy_file(pki_.credentials("a").certificate, older);
  renew_region(pki_.path(), "a");
  ASSERT_TRUE(run_until([&] { return log_.has("a: credentials were replaced"); }));
  revoke_region(pki_.path(), "a");
  ASSERT_TRUE(run_until([&] { return !b().downs.empty(); })) << "the link began with the older one";
  stop(*a().mesh);
  Credentials rogue = pki_.credentials("a");
  rogue.certificate = older;
  const auto outcome = rogue_tls(context_, b().mesh->listening_port(), {rogue}, "");
  ASSERT_TRUE(run_until([&] { return outcome->ended; }));
  EXPECT_THAT(outcome->error, testing::HasSubstr("certificate revoked"));
  EXPECT_FALSE(b().mesh->is_up("a"));
}

TEST_F(Rotation, RenewalDropsNoLink) {
  renew_region(pki_.path(), "a");
  ASSERT_TRUE(run_until([&] { return log_.has("a: credentials were replaced"); }));
  EXPECT_TRUE(b().downs.empty() && a().downs.empty());
  EXPECT_TRUE(b().mesh->is_up("a"));
}

TEST_F(Rotation, FileThatCannotBeReadLeavesTheOldCredentialsInUse) {
  std::filesystem::rename(pki_.path() / "a.crt", pki_.path() / "a.old");
  ASSERT_TRUE(run_until([&] { return log_.has("a: keeping the old credentials: "); }));
  EXPECT_TRUE(b().mesh->is_up("a"));
  std::filesystem::rename(pki_.path() / "a.old", pki_.path() / "a.crt");
  EXPECT_TRUE(run_until([&] { return log_.has("a: credentials were replaced"); }));
}

}  // namespace
}  // namespace causeway::inter
