#include "intra/worker/gathering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <system_error>
#include <vector>

#include "intra/base/error.h"
#include "tests/intra/expect_refusal.h"
#include "tests/intra/worker/mock_session.h"

namespace causeway::intra {
namespace {

using testing::NiceMock;
using testing::Return;
using testing::ReturnRef;

// One rank, whose sessions and groups are told how they go.
class GatheringTest : public testing::Test {
 protected:
  // Each session, whether it is lost while the group forms; each group, whether it was given up.
  std::vector<bool> lost_, given_up_;
  std::size_t attached_ = 0;
  bool interrupted_ = false;

  std::unique_ptr<Gathering> gather() {
    const Attach attach = [this](const diloco::AttachRequest&, const KeepWaiting&) {
      auto session = std::make_unique<NiceMock<MockSession>>();
      ON_CALL(*session, attachment).WillByDefault(ReturnRef(attachment_));
      ON_CALL(*session, lost).WillByDefault(Return(lost_.at(attached_++)));
      return session;
    };
    const MakeGroup make_group = [this](const diloco::Attachment&,
                                        const std::function<bool()>& given_up) {
      given_up_.push_back(given_up());
      if (cannot_form_ || given_up_.back())
        throw std::system_error(Errc::collective, "forming the group");
      return make_solo_collective();
    };
    return std::make_unique<Gathering>(diloco::AttachRequest{}, attach, make_group,
                                       [this] { return interrupted_; });
  }

  bool cannot_form_ = false;

 private:
  const diloco::Attachment attachment_{};
};

TEST_F(GatheringTest, AttachesAgainWhenAnotherRankLeftBeforeTheGroupStood) {
  lost_ = {true, true, false};
  const auto gathering = gather();
  EXPECT_EQ(attached_, 3U);
  EXPECT_EQ(given_up_, (std::vector{true, true, false}));
  EXPECT_EQ(gathering->group().size(), 1U);
}

TEST_F(GatheringTest, FailsWhenTheGroupCannotFormThoughAllAreThere) {
  lost_ = {false};
  cannot_form_ = true;
  expect_refusal(Errc::collective, {"forming the group"}, [this] { gather(); });
  EXPECT_EQ(attached_, 1U);
}

TEST_F(GatheringTest, ARankThatIsToStopJoinsTheOthersIfTheyAreThere) {
  lost_ = {false};
  interrupted_ = true;
  EXPECT_EQ(gather()->group().size(), 1U);
  EXPECT_EQ(given_up_, std::vector{false});
}

TEST_F(GatheringTest, ARankThatIsToStopDoesNotTryAgain) {
  lost_ = {true};
  interrupted_ = true;
  expect_refusal(Errc::interrupted, {}, [this] { gather(); });
  EXPECT_EQ(attached_, 1U);
}

}  // namespace
}  // namespace causeway::intra
