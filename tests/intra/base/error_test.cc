#include "intra/base/error.h"

#include <gtest/gtest.h>

namespace causeway::intra {
namespace {

TEST(MessageOf, LeavesOutTheCategorysWords) {
  EXPECT_EQ(message_of(std::system_error(Errc::bad_data, "a.txt is empty")), "a.txt is empty");
}

TEST(MessageOf, KeepsTheCategorysWordsWhereThereAreNoOthers) {
  EXPECT_EQ(message_of(std::system_error(make_error_code(Errc::bad_data))), "unusable data");
}

TEST(MessageOf, LeavesThemOutAsOftenAsTheyAreThere) {
  const std::system_error inner(Errc::bad_data, "a.txt is empty");
  EXPECT_EQ(message_of(std::system_error(Errc::bad_data, inner.what())), "a.txt is empty");
}

TEST(MessageOf, MakesAWrappedErrorSayTheCategorysWordsOnce) {
  const std::system_error inner(Errc::bad_data, "the text is not UTF-8");
  const std::system_error outer(inner.code(), "a.txt: " + message_of(inner));
  EXPECT_STREQ(outer.what(), "a.txt: the text is not UTF-8: unusable data");
}

TEST(MessageSaidOnce, KeepsTheSystemsWordsWhereNothingElseSaysThem) {
  const auto refused = std::make_error_code(std::errc::connection_refused);
  EXPECT_EQ(message_said_once(std::system_error(refused, "asking b: Connection refused: start it")),
            "asking b: Connection refused: start it");
  EXPECT_EQ(message_said_once(std::system_error(refused, "asking b")),
            "asking b: Connection refused");
  EXPECT_EQ(message_said_once(std::system_error(refused)), "Connection refused");
}

}  // namespace
}  // namespace causeway::intra
