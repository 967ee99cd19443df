// What tests ask of the directories that coordinators leave.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "diloco/ledger/ledger_file.h"
#include "diloco/ledger/ledger_files.h"
#include "tests/diloco/coordinator/run_fixture.h"

namespace causeway::diloco {

using testing::TestRun;

inline std::string read(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

inline std::vector<LedgerEntry> ledger_of(const TestRun& run, const std::string& region) {
  const std::filesystem::path ledger = run.directory(region) / "ledger";
  return read_ledger(ledger / "records", read_run_id(ledger));
}

// The commit records of a region's ledger, serialized.
inline std::vector<std::string> records_of(const TestRun& run, const std::string& region) {
  std::vector<std::string> records;
  for (const LedgerEntry& entry : ledger_of(run, region)) {
    const auto* record = std::get_if<CommitRecord>(&entry.entry.body);
    if (record != nullptr) records.push_back(serialize(*record));
  }
  return records;
}

inline void expect_complete(TestRun& run, const std::vector<std::string>& regions, Round rounds) {
  for (const std::string& region : regions) {
    const auto outcome = run.outcome(region);
    ASSERT_TRUE(outcome) << region << " did not end";
    EXPECT_EQ(outcome->exit_code, 0) << region << ": " << outcome->message;
    EXPECT_TRUE(run.worker(region).finished()) << region << ": " << run.worker(region).error();
    EXPECT_EQ(run.worker(region).version(), rounds) << region;
    EXPECT_EQ(run.worker(region).state(), run.worker(regions.front()).state()) << region;
    EXPECT_EQ(records_of(run, region), records_of(run, regions.front())) << region;
  }
}

}  // namespace causeway::diloco
