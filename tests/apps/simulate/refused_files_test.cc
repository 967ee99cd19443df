#include "apps/run/simulate/refused_files.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace causeway::run {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RefusedFilesTest : public testing::Test {
 protected:
  static void refuse() { throw std::system_error(ENOSPC, std::generic_category(), "cannot write"); }
  static void take() {}

  std::vector<std::string> notes_;
  RefusedFiles files_{[this](const std::string& text) { notes_.push_back(text); }};
};

TEST_F(RefusedFilesTest, ATroubleIsNotedOnceHoweverManyFilesItConcernsAndOnceWhenItIsOver) {
  EXPECT_TRUE(files_.attempt("a", take));
  EXPECT_THAT(notes_, IsEmpty());
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(files_.attempt("a", refuse));
    EXPECT_FALSE(files_.attempt("b", refuse));
  }
  ASSERT_THAT(notes_, ElementsAre(HasSubstr("a was not written: cannot write: No space left")));
  EXPECT_TRUE(files_.attempt("a", take));
  EXPECT_EQ(notes_.size(), 1U) << "b is still refused";
  EXPECT_TRUE(files_.attempt("b", take));
  EXPECT_TRUE(files_.attempt("b", take));
  EXPECT_THAT(notes_, ElementsAre(testing::_, HasSubstr("are written again")));
  files_.attempt("b", refuse);
  EXPECT_EQ(notes_.size(), 3U) << "another trouble";
}

TEST_F(RefusedFilesTest, ListsWhatIsNotWrittenAndWhy) {
  files_.attempt("a", refuse);
  files_.attempt("b", refuse);
  files_.attempt("a", take);
  ASSERT_EQ(files_.list().size(), 1U);
  EXPECT_EQ(files_.list().at("b").code(), std::errc::no_space_on_device);
}

TEST_F(RefusedFilesTest, AMistakeOfTheProgramIsNoTroubleOfADisk) {
  EXPECT_THROW(files_.attempt("a", [] { throw std::logic_error("a mistake"); }), std::logic_error);
  EXPECT_THAT(notes_, IsEmpty());
}

}  // namespace
}  // namespace causeway::run
