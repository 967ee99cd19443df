#include "apps/run/watch/certificate_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_pki.h"

namespace causeway::run {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

constexpr double kDay = 86'400;

TEST(CertificateEnds, IsReadFromTheFiles) {
  const test::TestPki pki({"east"});
  const auto ends = certificate_ends(pki.credentials("east"));
  ASSERT_THAT(ends, SizeIs(2));
  EXPECT_EQ(ends[0].certificate, "own");
  EXPECT_EQ(ends[1].certificate, "authority");
  // As they are made: a year, and ten.
  EXPECT_NEAR((ends[1].at_unix_s - ends[0].at_unix_s) / kDay, 3650 - 365, 2);
  EXPECT_EQ(inter::valid_until_unix_s(pki.credentials("east")), ends[0].at_unix_s);
}

TEST(CertificateEnds, WhatCannotBeReadIsLeftOut) {
  const test::TestPki pki({"east"});
  inter::Credentials half_replaced = pki.credentials("east");
  half_replaced.certificate = "none.crt";
  EXPECT_THAT(certificate_ends(half_replaced), SizeIs(1));
  EXPECT_FALSE(inter::valid_until_unix_s(half_replaced));
}

TEST(CertificateEnds, IsWarnedOfThirtyDaysBefore) {
  const CertificateEnd own{"own", "c/east.crt", "2027-01-31T00:00:00Z", 100 * kDay};
  EXPECT_EQ(expiry_warning(own, "east", 69 * kDay), "");
  EXPECT_THAT(expiry_warning(own, "east", 89.5 * kDay),
              AllOf(HasSubstr("c/east.crt runs out at 2027-01-31T00:00:00Z, 10 days are left"),
                    HasSubstr("`causeway certs renew east`")));
  EXPECT_THAT(expiry_warning(own, "east", 101 * kDay), HasSubstr("ran out at 2027-01-31"));
  const CertificateEnd authority{"authority", "c/ca.crt", "2027-01-31T00:00:00Z", 100 * kDay};
  EXPECT_THAT(expiry_warning(authority, "east", 90 * kDay), HasSubstr("make a new authority"));
}

}  // namespace
}  // namespace causeway::run
