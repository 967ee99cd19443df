// The ledger of one region in a directory of its own, with rounds of two.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <vector>

#include <gtest/gtest.h>

#include "diloco/ledger/ledger.h"
#include "tests/support/temporary_directory.h"

namespace causeway::diloco {

class LedgerTest : public ::testing::Test {
 protected:
  static inter::BlobId blob(std::uint8_t value) {
    inter::BlobId id{.hash = {}, .size_bytes = value};
    id.hash.fill(value);
    return id;
  }

  static CommitRecord record(Round round) {
    return {
        .run_id = "run-1",
        .round = round,
        .participants =
            {{.region = "a", .weight = 0.25F, .data_cursor = 7, .tokens = 10, .payload = blob(1)},
             {.region = "b", .weight = 0.75F, .data_cursor = 9, .tokens = 30, .payload = blob(2)}},
        .state = sha256({}),
        .next_k = 4};
  }

  static std::vector<LogEntry> entries(Round first, Round count) {
    std::vector<LogEntry> made;
    for (Round round = first; round < first + count; ++round) {
      made.push_back({.term = 1, .body = record(round)});
    }
    return made;
  }

  std::filesystem::path path() const { return directory_.path() / "ledger"; }
  std::filesystem::path records() const { return path() / "records"; }

  void write_rounds(Round count) {
    Ledger ledger(path());
    ledger.set_run_id("run-1");
    ledger.save_raft(1, "b", 1, entries(0, count));
    for (Round round = 0; round < count; ++round) ledger.append(entries(round, 1));
  }
  static void flip(const std::filesystem::path& file_name, std::uintmax_t offset) {
    std::fstream file(file_name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const auto flipped = static_cast<char>(file.get() ^ 0x10);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(flipped);
  }

  test::TemporaryDirectory directory_;
};

}  // namespace causeway::diloco
