// A training state of which every number differs, and what of it is on disk.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "diloco/files/file_io.h"
#include "intra/outer/state_file.h"
#include "intra/step/training_state.h"
#include "tests/intra/temporary_directory.h"

namespace causeway::intra {

class StateOnDisk : public testing::Test {
 protected:
  static const diloco::Layout& layout() {
    static const diloco::Layout small({{"a", {64, 65}}, {"x", {7}}});
    return small;
  }

  static InFlight contribution(diloco::Round round, std::uint32_t part, int content) {
    InFlight own;
    const std::vector<std::byte> bytes(100, static_cast<std::byte>(content));
    own.payload = OwnPayload(diloco::SealedBytes(bytes));
    own.contribution = {.run_id = "0123456789abcdef",
                        .region = "eu",
                        .round = round,
                        .part = part,
                        .tokens = 1ULL << 50,
                        .steps = 25,
                        .compute_s = 1.0 / 7,
                        .data_cursor = 99,
                        .delta_norm = 0.1,
                        .error_norm = 1e-300,
                        .payload = {}};
    return own;
  }

  // Every number different.
  static TrainingState distinct_state() {
    TrainingState state({}, layout());
    float next = 1;
    for (const std::span<float> part :
         {std::span(state.params), std::span(state.anchor), std::span(state.momentum),
          std::span(state.residual), state.optimizer.first_moment(),
          state.optimizer.second_moment()}) {
      std::iota(part.begin(), part.end(), next);
      next += static_cast<float>(part.size());
    }
    state.version = 7;
    state.run_id = "0123456789abcdef";
    state.work = {.data_cursor = (1ULL << 60) + 1, .steps = 3, .compute_s = 1e-3};
    state.optimizer_steps = 73;
    state.in_flight = {contribution(5, 1, 42), contribution(7, 0, 43)};
    state.in_flight[1].stored = true;
    state.steps = 75;
    state.tokens = 1ULL << 61;
    state.spent.compute_s = 1.0 / 3;
    state.spent.wait_s = 2.0 / 3;
    state.trained_on = diloco::DataDigest{.sample = {1, 2}, .whole = diloco::Digest{3, 4}};
    state.digest = whole_digest(state);
    return state;
  }

  static void expect_equal(TrainingState& a, TrainingState& b) {
    EXPECT_EQ(a.params, b.params);
    EXPECT_EQ(a.anchor, b.anchor);
    EXPECT_EQ(a.momentum, b.momentum);
    EXPECT_EQ(a.residual, b.residual);
    EXPECT_THAT(a.optimizer.first_moment(), testing::ElementsAreArray(b.optimizer.first_moment()));
    EXPECT_THAT(a.optimizer.second_moment(),
                testing::ElementsAreArray(b.optimizer.second_moment()));
    EXPECT_EQ(a.optimizer_steps, b.optimizer_steps);
    EXPECT_EQ(a.version, b.version);
    EXPECT_EQ(a.digest, b.digest);
    EXPECT_EQ(a.run_id, b.run_id);
    EXPECT_EQ(a.mark, b.mark);
    EXPECT_EQ(a.confirmed_share, b.confirmed_share);
    EXPECT_EQ(a.work.data_cursor, b.work.data_cursor);
    EXPECT_EQ(a.work.steps, b.work.steps);
    EXPECT_EQ(a.work.compute_s, b.work.compute_s);
    ASSERT_EQ(a.in_flight.size(), b.in_flight.size());
    for (std::size_t i = 0; i < a.in_flight.size(); ++i) {
      EXPECT_EQ(serialize(a.in_flight[i].identified()), serialize(b.in_flight[i].identified()));
      EXPECT_TRUE(
          std::ranges::equal(a.in_flight[i].payload.bytes(), b.in_flight[i].payload.bytes()));
      EXPECT_EQ(a.in_flight[i].stored, b.in_flight[i].stored);
    }
    EXPECT_EQ(a.steps, b.steps);
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.spent.compute_s, b.spent.compute_s);
    EXPECT_EQ(a.spent.wait_s, b.spent.wait_s);
    EXPECT_EQ(a.trained_on, b.trained_on);
  }

  static std::vector<std::filesystem::path> saved_as(const std::string& begin,
                                                     const TemporaryDirectory& directory) {
    std::vector<std::filesystem::path> found;
    for (const auto& entry :
         std::filesystem::directory_iterator(checkpoint_directory(directory.path())))
      if (entry.path().filename().string().starts_with(begin)) found.push_back(entry.path());
    return found;
  }

  static std::vector<std::filesystem::path> contributions(const TemporaryDirectory& directory) {
    return saved_as("contribution-", directory);
  }

  static std::filesystem::path outer_of_newest(const TemporaryDirectory& directory) {
    return open_state(newest_state_file(directory.path())).outer.file();
  }

  static void damage(const std::filesystem::path& file) {
    std::string bytes = diloco::read_file(file).value();
    bytes.back() ^= 1;
    diloco::replace_file(file, bytes, diloco::Durability::visible);
  }

  static std::size_t outer_files(const TemporaryDirectory& directory) {
    return saved_as("outer-", directory).size();
  }
};

}  // namespace causeway::intra
