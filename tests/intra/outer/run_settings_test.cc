#include "intra/outer/run_settings.h"

#include <gtest/gtest.h>

#include "intra/base/error.h"
#include "tests/intra/expect_refusal.h"

namespace causeway::intra {
namespace {

TEST(RunSettings, ThatCannotBeUsedSayWhy) {
  const auto refused = [](const std::string& text, const std::string& why) {
    expect_refusal(Errc::bad_settings, {why}, [&] { parse_run_settings(text); });
  };
  refused("codec.matrix = 5\n", "codec.matrix");
  refused("outer.optimizer = \"adam\"\n", "adam");
  refused("codec.step_up = [1]\n", "codec.step_up");
  refused("no TOML", "settings of the run");
}

}  // namespace
}  // namespace causeway::intra
