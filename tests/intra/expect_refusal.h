// Checks of an error's code and of what its message tells.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <system_error>
#include <vector>

#include "intra/base/error.h"

namespace causeway::intra {

// `action` must throw `code` with a message that has all of `parts`.
template <typename Action>
void expect_refusal(Errc code, const std::vector<std::string>& parts, Action&& action) {
  try {
    action();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string& part : parts) {
      EXPECT_THAT(error.what(), testing::HasSubstr(part));
    }
  }
}

}  // namespace causeway::intra
