#include "inter/base/text.h"

#include <gtest/gtest.h>

namespace causeway::inter {
namespace {

TEST(Printable, LeavesTextAsItIs) {
  const std::string text = "plain\ttext\nZürich 東京 😀 \u00A0 ÿ";
  EXPECT_EQ(printable(text), text);
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, TakesControlCharactersAway) {
  EXPECT_EQ(printable("a\x1b[31mred\x07\r\x7f"), "a?[31mred???");
  EXPECT_EQ(printable(std::string_view("\0b", 2)), "?b");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m"),
            "?31m");  // the control sequence introducer of C1
  EXPECT_EQ(printable("\xC2\x80\xC2\xA0"), "?\xC2\xA0");
}

TEST(Printable, TakesWhatIsNotUtf8Away) {
  EXPECT_EQ(printable("\x9B"
                      "31m"),
            "?31m");
  EXPECT_EQ(printable("\xC3"), "?");
  EXPECT_EQ(printable("\xE2\x82"), "??");
  EXPECT_EQ(printable("\xC0\x9B"), "??");            // ESC, written too long
  EXPECT_EQ(printable("\xE0\x80\x9B"), "???");       // and longer
  EXPECT_EQ(printable("\xED\xA0\x80"), "???");       // a surrogate
  EXPECT_EQ(printable("\xF4\x90\x80\x80"), "????");  // above the last character
  EXPECT_EQ(printable("\xE2\x1b[0m"), "??[0m");
}

TEST(Printable, OnOneLineHasNoEndsOfLines) {
  EXPECT_EQ(printable_line("a\nb\tc\x1b"), "a?b?c?");
}

}  // namespace

}  // namespace causeway::inter
