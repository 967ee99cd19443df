#include "apps/run/region/owner_advice.h"

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/apps/temporary.h"

namespace causeway::run {
namespace {

using testing::StartsWith;

TEST(OwnerAdvice, NamesTheInnermostPartThatIsThereAndBothUsers) {
  const TemporaryDirectory directory;
  const uid_t another = ::getuid() + 4711;
  EXPECT_THAT(owner_advice(directory / "second" / "us-east", another),
              AllOf(StartsWith("; " + directory.path().string() + " belongs to user " +
                               std::to_string(::getuid())),
                    testing::HasSubstr("process is user " + std::to_string(another))));
}

TEST(OwnerAdvice, IsNoneForOnesOwnPlace) {
  const TemporaryDirectory directory;
  EXPECT_EQ(owner_advice(directory / "second", ::getuid()), "");
}

}  // namespace
}  // namespace causeway::run
