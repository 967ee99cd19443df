#include "inter/tls/pki.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "inter/base/error.h"
#include "inter/base/file.h"
#include "inter/tls/signature.h"
#include "inter/tls/tls.h"
#include "tests/support/captured_log.h"
#include "tests/support/process_limits.h"
#include "tests/support/temporary_directory.h"

namespace causeway::inter {
namespace {

using std::filesystem::perms;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

class Pki : public testing::Test {
 protected:
  const std::filesystem::path& path() const { return directory_.path(); }

  template <typename Action>
  std::system_error failure_of(const Action& action) {
    try {
      action();
    } catch (const std::system_error& error) {
      return error;
    }
    ADD_FAILURE() << "nothing was thrown";
    return std::system_error(std::error_code());
  }

  test::TemporaryDirectory directory_;
};

TEST_F(Pki, BindsTheRegionNameToItsCertificate) {
  create_ca(path(), "experiment 7");
  add_region(path(), "us-east");
  const CertificateInfo info = describe_certificate(path() / "us-east.crt");
  EXPECT_EQ(info.subject, "CN = us-east");
  EXPECT_EQ(info.issuer, "CN = experiment 7 CA");
  EXPECT_THAT(info.dns_names, ElementsAre("us-east"));
  EXPECT_THAT(info.not_before, MatchesRegex("....-..-..T..:..:..Z"));
  EXPECT_LT(info.not_before, info.not_after);
  EXPECT_THAT(info.sha256_fingerprint, MatchesRegex("([0-9A-F][0-9A-F]:)+[0-9A-F][0-9A-F]"));
  EXPECT_EQ(info.sha256_fingerprint.size(), 95U);
}

// Neither the key, which comes first, nor part of either is in the way of the next attempt.
TEST_F(Pki, WhatADiskHadNoRoomForIsMadeWhenThereIsSome) {
  const auto make_on_full_disk = [&](const std::function<void()>& make, rlim_t bytes_max) {
    const test::FullDisk full(bytes_max);
    EXPECT_TRUE(is_out_of_room(failure_of(make))) << bytes_max;
  };
  const auto authority = [&] { create_ca(path(), "run"); };
  const auto region = [&] { add_region(path(), "eu"); };
  for (const rlim_t bytes_max : {10, 200}) make_on_full_disk(authority, bytes_max);
  authority();
  for (const rlim_t bytes_max : {100, 400}) make_on_full_disk(region, bytes_max);
  region();
  EXPECT_EQ(describe_certificate(path() / "eu.crt").subject, "CN = eu");
}

TEST_F(Pki, KeysArePrivateFiles) {
  create_ca(path(), "run");
  add_region(path(), "eu");
  for (const char* key : {"ca.key", "eu.key"}) {
    EXPECT_EQ(std::filesystem::status(path() / key).permissions(),
              perms::owner_read | perms::owner_write)
        << key;
  }
}

TEST_F(Pki, SaysThatOthersMayUseTheAuthoritysKeyAndRevokesNevertheless) {
  create_ca(path(), "run");
  add_region(path(), "eu");
  const test::CapturedLog log;
  add_region(path(), "us");
  EXPECT_FALSE(log.has("open to other users"));
  std::filesystem::permissions(path() / "ca.key", perms::group_read,
                               std::filesystem::perm_options::add);
  EXPECT_TRUE(revoke_region(path(), "eu"));
  EXPECT_TRUE(log.has("`chmod 600 " + (path() / "ca.key").string() + "`"));
}

TEST_F(Pki, NamesTheFilesOfARegion) {
  const Credentials files = credentials_in("/pki", "eu");
  EXPECT_EQ(files.ca_certificate, "/pki/ca.crt");
  EXPECT_EQ(files.certificate, "/pki/eu.crt");
  EXPECT_EQ(files.key, "/pki/eu.key");
  EXPECT_EQ(files.revocations, "/pki/ca.crl");
}

TEST_F(Pki, NeverOverwrites) {
  create_ca(path(), "run");
  add_region(path(), "eu");
  const auto before = describe_certificate(path() / "eu.crt").sha256_fingerprint;
  EXPECT_EQ(failure_of([&] { create_ca(path(), "run"); }).code(), Errc::already_exists);
  EXPECT_EQ(failure_of([&] { add_region(path(), "eu"); }).code(), Errc::already_exists);
  EXPECT_EQ(describe_certificate(path() / "eu.crt").sha256_fingerprint, before);
}

TEST_F(Pki, RefusesInvalidRegionNames) {
  create_ca(path(), "run");
  for (const std::string& name :
       {std::string(), std::string("US"), std::string("a b"), std::string("../x"),
        std::string("a,DNS:b"), std::string("ca"), std::string(64, 'a')}) {
    EXPECT_EQ(failure_of([&] { add_region(path(), name); }).code(), Errc::bad_name) << name;
  }
  EXPECT_NO_THROW(add_region(path(), std::string(63, 'a')));
}

TEST_F(Pki, NoRegionCanHaveAnObserversName) {
  create_ca(path(), "run");
  add_observer(path(), "watch");
  const auto names = describe_certificate(credentials_in(path(), "watch").certificate).dns_names;
  ASSERT_EQ(names.size(), 1U);
  EXPECT_TRUE(is_observer(names[0]));
  EXPECT_THROW(add_region(path(), names[0]), std::system_error);
  EXPECT_THROW(add_observer(path(), "watch"), std::system_error);
  EXPECT_THROW(add_observer(path(), std::string(55, 'x')), std::system_error);
}

TEST_F(Pki, AFollowerIsNeitherARegionNorAnObserver) {
  create_ca(path(), "test");
  add_follower(path(), "reader");
  const auto names = describe_certificate(path() / "reader.crt").dns_names;
  ASSERT_THAT(names, ElementsAre("reader.follower"));
  EXPECT_TRUE(is_follower(names[0]));
  EXPECT_FALSE(is_observer(names[0]));
  EXPECT_THROW(add_region(path(), names[0]), std::system_error);
  renew_region(path(), "reader");
  EXPECT_EQ(describe_certificate(path() / "reader.crt").dns_names, names);
}

TEST_F(Pki, ARenewedObserverIsStillOne) {
  create_ca(path(), "run");
  add_observer(path(), "watch");
  renew_region(path(), "watch");
  EXPECT_THAT(describe_certificate(path() / "watch.crt").dns_names, ElementsAre("watch.observer"));
}

TEST_F(Pki, SaysWhatToRunWhenThereIsNoAuthority) {
  const auto error = failure_of([&] { add_region(path(), "eu"); });
  EXPECT_EQ(error.code(), Errc::no_ca);
  EXPECT_THAT(error.what(), HasSubstr("causeway certs init"));
}

TEST_F(Pki, NamesTheFileThatIsNoCertificate) {
  std::ofstream(path() / "x.crt") << "nonsense";
  EXPECT_THAT(failure_of([&] { describe_certificate(path() / "x.crt"); }).what(),
              HasSubstr("x.crt"));
  const auto missing = failure_of([&] { describe_certificate(path() / "none.crt"); });
  EXPECT_EQ(missing.code(), Errc::bad_credentials);
  EXPECT_THAT(missing.what(), HasSubstr("none.crt: No such file or directory; `causeway certs`"));
}

TEST_F(Pki, ValidityCanLieInThePastOrFuture) {
  create_ca(path(), "run");
  add_region(path(), "old", std::chrono::days(1), std::chrono::days(-10));
  add_region(path(), "new", std::chrono::days(1), std::chrono::days(10));
  EXPECT_LT(describe_certificate(path() / "old.crt").days_left, 0);
  EXPECT_LT(describe_certificate(path() / "old.crt").not_after,
            describe_certificate(path() / "new.crt").not_before);
}

TEST_F(Pki, RevokesOneCertificateAndNoOther) {
  create_ca(path(), "run");
  add_region(path(), "eu");
  add_region(path(), "us");
  EXPECT_FALSE(is_revoked(path(), path() / "eu.crt"));
  EXPECT_TRUE(revoke_region(path(), "eu"));
  EXPECT_FALSE(revoke_region(path(), "eu")) << "once is enough";
  EXPECT_TRUE(is_revoked(path(), path() / "eu.crt"));
  EXPECT_FALSE(is_revoked(path(), path() / "us.crt"));
  EXPECT_TRUE(revoke_region(path(), "us"));
  EXPECT_TRUE(is_revoked(path(), path() / "eu.crt") && is_revoked(path(), path() / "us.crt"));
}

// An operator's two terminals: a region was told to be revoked, and was not.
TEST_F(Pki, SeveralThatChangeTheDirectoryAtOnceLoseNothing) {
  create_ca(path(), "run");
  const std::vector<std::string> regions{"a", "b", "c", "d", "e", "f", "g", "h"};
  {
    std::vector<std::jthread> terminals;
    for (const std::string& region : regions) {
      terminals.emplace_back([this, region] {
        add_region(path(), region);
        EXPECT_TRUE(revoke_region(path(), region));
      });
    }
  }
  for (const std::string& region : regions)
    EXPECT_TRUE(is_revoked(path(), path() / (region + ".crt"))) << region;
}

TEST_F(Pki, WhoNeverHadACertificateIsNotRevokedAndNamed) {
  create_ca(path(), "run");
  try {
    revoke_region(path(), "nobody");
    FAIL() << "was revoked";
  } catch (const std::system_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no certificate of nobody is known"));
    EXPECT_THAT(error.what(), Not(HasSubstr("OpenSSL")));
  }
}

TEST_F(Pki, AnotherAuthoritysRevocationListIsRefusedByName) {
  const std::filesystem::path other = path() / "other";
  std::filesystem::create_directory(other);
  create_ca(path(), "run");
  create_ca(other, "run");
  add_region(path(), "eu");
  add_region(other, "us");
  revoke_region(other, "us");
  std::filesystem::copy_file(other / "ca.crl", path() / "ca.crl",
                             std::filesystem::copy_options::overwrite_existing);
  try {
    make_tls_context(credentials_in(path(), "eu"), TlsRole::server);
    FAIL() << "it was taken";
  } catch (const std::system_error& error) {
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("revocation list"), HasSubstr("ca.crl"),
                                             HasSubstr("not from the authority")));
  }
}

TEST_F(Pki, RenewalKeepsTheKeyAndLeavesTheRevokedCertificateBehind) {
  create_ca(path(), "run");
  add_region(path(), "eu", std::chrono::days(1));
  EXPECT_EQ(describe_certificate(path() / "eu.crt").days_left, 0);
  revoke_region(path(), "eu");
  const auto key_before = std::filesystem::last_write_time(path() / "eu.key");
  renew_region(path(), "eu", std::chrono::days(30));
  EXPECT_EQ(describe_certificate(path() / "eu.crt").days_left, 29);
  EXPECT_EQ(std::filesystem::last_write_time(path() / "eu.key"), key_before);
  EXPECT_FALSE(is_revoked(path(), path() / "eu.crt"));
}

// The key is the same, so whoever has it could go on with a certificate that was renewed away.
TEST_F(Pki, RevokesEveryCertificateThatRenewalsLeftBehind) {
  create_ca(path(), "run");
  add_region(path(), "eu");
  add_region(path(), "us");
  std::filesystem::copy_file(path() / "eu.crt", path() / "first");
  renew_region(path(), "eu");
  std::filesystem::copy_file(path() / "eu.crt", path() / "second");
  renew_region(path(), "eu");
  EXPECT_TRUE(revoke_region(path(), "eu"));
  EXPECT_FALSE(revoke_region(path(), "eu"));
  for (const char* file : {"first", "second", "eu.crt"}) {
    EXPECT_TRUE(is_revoked(path(), path() / file)) << file;
  }
  EXPECT_FALSE(is_revoked(path(), path() / "us.crt"));
  renew_region(path(), "eu");
  EXPECT_FALSE(is_revoked(path(), path() / "eu.crt")) << "revoking ends with a renewal";
  EXPECT_TRUE(revoke_region(path(), "eu"));
}

TEST_F(Pki, ADirectoryWithoutTheListOfIssuedCertificatesStillRenewsAndRevokes) {
  create_ca(path(), "run");
  add_region(path(), "eu");
  std::filesystem::copy_file(path() / "eu.crt", path() / "first");
  std::filesystem::remove(path() / "ca.issued");  // as an older version left it
  renew_region(path(), "eu");
  EXPECT_TRUE(revoke_region(path(), "eu"));
  EXPECT_TRUE(is_revoked(path(), path() / "first"));
  EXPECT_TRUE(is_revoked(path(), path() / "eu.crt"));
}

TEST_F(Pki, RevokesARegionWhoseCertificateIsNotThereAnyMore) {
  create_ca(path(), "run");
  add_region(path(), "eu");
  std::filesystem::rename(path() / "eu.crt", path() / "elsewhere");
  EXPECT_TRUE(revoke_region(path(), "eu"));
  EXPECT_TRUE(is_revoked(path(), path() / "elsewhere"));
  const auto failure = failure_of([&] { revoke_region(path(), "us"); });
  EXPECT_EQ(failure.code(), Errc::bad_credentials);
  EXPECT_THAT(failure.what(), AllOf(HasSubstr("us.crt"), HasSubstr("ca.issued")));
}

TEST_F(Pki, AListOfIssuedCertificatesWithoutItsLastNewlineIsContinued) {
  create_ca(path(), "run");
  add_region(path(), "eu");
  const auto list = path() / "ca.issued";
  std::filesystem::resize_file(list, std::filesystem::file_size(list) - 1);
  add_region(path(), "us");
  EXPECT_TRUE(revoke_region(path(), "eu"));
  EXPECT_TRUE(revoke_region(path(), "us"));
}

TEST_F(Pki, AListOfIssuedCertificatesThatCannotBeReadIsNotReplaced) {
  create_ca(path(), "run");
  std::filesystem::create_directory(path() / "ca.issued");
  EXPECT_THROW(add_region(path(), "eu"), std::system_error);
  EXPECT_TRUE(std::filesystem::is_directory(path() / "ca.issued"));
  EXPECT_FALSE(std::filesystem::exists(path() / "eu.crt")) << "nothing is issued unnoticed";
}

TEST_F(Pki, NamesTheLineOfTheListOfIssuedCertificatesThatIsDamaged) {
  create_ca(path(), "run");
  add_region(path(), "eu");
  for (const char* line : {"eu", "eu 12x", "eu -12"}) {
    std::ofstream(path() / "ca.issued") << line << "\n";
    const auto failure = failure_of([&] { revoke_region(path(), "eu"); });
    EXPECT_EQ(failure.code(), Errc::bad_credentials);
    EXPECT_THAT(failure.what(), HasSubstr(std::string("ca.issued: \"") + line + "\""));
  }
  EXPECT_FALSE(is_revoked(path(), path() / "eu.crt"));
}

TEST_F(Pki, WhoSignedIsTheRegionByItsAuthority) {
  const auto run = path() / "run", other = path() / "other";
  for (const auto& directory : {run, other}) {
    create_ca(directory, directory.filename().string());
    add_region(directory, "eu");
    add_region(directory, "us");
  }
  const Credentials eu = credentials_in(run, "eu");
  EXPECT_EQ(objection_to_signer(eu, "eu"), "");
  Credentials changed = eu;
  changed.certificate = run / "us.crt";
  EXPECT_THAT(objection_to_signer(changed, "eu"), HasSubstr("is for \"us\", not for \"eu\""));
  changed.certificate = other / "eu.crt";
  EXPECT_THAT(objection_to_signer(changed, "eu"), HasSubstr("ca.crt (CN = run CA) did not sign "));
  std::ofstream(run / "ca.crt") << "-----BEGIN CERTIFICATE-----\nno\n";
  EXPECT_THAT(failure_of([&] { objection_to_signer(eu, "eu"); }).what(),
              HasSubstr("cannot read " + eu.ca_certificate.string()));
  std::filesystem::remove(run / "ca.crt");
  EXPECT_EQ(objection_to_signer(eu, "eu"), "") << "whoever has the one file alone";
}

TEST_F(Pki, AnExpiredCertificateStillShowsWhoSigned) {
  create_ca(path(), "run");
  add_region(path(), "eu", std::chrono::days(1), -std::chrono::days(3));
  EXPECT_EQ(objection_to_signer(credentials_in(path(), "eu"), "eu"), "");
}

}  // namespace
}  // namespace causeway::inter
