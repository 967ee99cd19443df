#include "apps/run/watch/checkpoint_hook.h"

#include <gtest/gtest.h>

#include <exception>
#include <string>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include "diloco/files/file_io.h"
#include "diloco/ledger/ledger.h"
#include "tests/apps/temporary.h"

namespace causeway::run {
namespace {

// Of a region with a snapshot, once `command` has ended.
std::string log_after(const std::filesystem::path& directory, const std::string& command,
                      std::uintmax_t log_bytes_max = 1 << 20) {
  diloco::Ledger(directory / "ledger")
      .save(diloco::Snapshot{.version = 1, .state = {}, .blob = {}});
  asio::io_context context;
  CheckpointHook hook(context.get_executor(), {.command = command,
                                               .region = "east",
                                               .directory = directory,
                                               .environment = {},
                                               .log_bytes_max = log_bytes_max});
  hook.finish();
  asio::co_spawn(context, hook.run(), [](std::exception_ptr failure) { EXPECT_FALSE(failure); });
  context.run();
  EXPECT_EQ(read_checkpoint_hook(directory)->version, 1U);
  return diloco::read_file(directory / "checkpoint-after.log").value_or("");
}

TEST(CheckpointHook, KeepsWhatTheCommandPrinted) {
  const TemporaryDirectory directory;
  EXPECT_EQ(log_after(directory.path(), "echo said; echo told >&2", 1 << 20), "said\ntold\n");
}

// Somebody removed the ledger and began anew in the same directory.
TEST(CheckpointHook, WhatItDidForAnotherRunDoesNotCount) {
  const TemporaryDirectory directory;
  const auto begin = [&](const std::string& run_id) {
    std::filesystem::remove_all(directory / "ledger");
    diloco::Ledger(directory / "ledger").set_run_id(run_id);
  };
  begin("first");
  EXPECT_EQ(log_after(directory.path(), "echo one"), "one\n");
  EXPECT_EQ(log_after(directory.path(), "echo two"), "one\n") << "it was brought away";
  begin("second");
  EXPECT_EQ(log_after(directory.path(), "echo three"), "one\nthree\n");
  EXPECT_EQ(read_checkpoint_hook(directory.path())->run_id, "second");
}

// Earlier versions did not write of which run it is.
TEST(CheckpointHook, WhatDoesNotNameItsRunIsOfThisOne) {
  const TemporaryDirectory directory;
  diloco::Ledger(directory / "ledger").set_run_id("run");
  directory.write("checkpoint-after.json", R"({"version": 1, "failures": 2})");
  EXPECT_EQ(log_after(directory.path(), "echo again"), "");
}

TEST(CheckpointHook, KeepsTheEndAloneOfACommandThatPrintsMuch) {
  const TemporaryDirectory directory;
  const std::string log =
      log_after(directory.path(), "head -c 3000000 /dev/zero | tr '\\0' x; echo the end", 1 << 20);
  EXPECT_LE(log.size(), 1U << 20);
  EXPECT_NE(log.find("bytes before this were cut off"), std::string::npos);
  EXPECT_TRUE(log.ends_with("x\nthe end\n") || log.ends_with("xthe end\n")) << log.size();
}

}  // namespace
}  // namespace causeway::run
