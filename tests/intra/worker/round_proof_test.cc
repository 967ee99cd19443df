#include "intra/worker/round_proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <sstream>

#include "diloco/files/file_io.h"
#include "tests/intra/expect_refusal.h"
#include "tests/intra/temporary_directory.h"

namespace causeway::intra {
namespace {

const diloco::Layout& layout() {
  static const diloco::Layout small({{"a", {64, 65}}, {"x", {7}}});
  return small;
}

TrainingState numbered_state() {
  TrainingState state({}, layout());
  float next = 1;
  for (const std::span<float> part : {std::span(state.params), state.optimizer.first_moment(),
                                      state.optimizer.second_moment(), std::span(state.residual)}) {
    std::iota(part.begin(), part.end(), next);
    next += static_cast<float>(part.size());
  }
  state.optimizer_steps = 73;
  return state;
}

RoundProof a_proof() {
  TrainingState state = numbered_state();
  RoundProof proof{.region = "eu-west",
                   .round = 12,
                   .machine = "oneDNN 3, some",
                   .threads = 2,
                   .momentum = diloco::sha256({}),
                   .leaves = {leaf_after({.data_cursor = 600}, 0, 6, state)}};
  for (const std::uint32_t steps : {4, 5}) {
    state.params[0] += 1;
    ++state.optimizer_steps;
    proof.leaves.push_back(leaf_after(proof.leaves.back(), steps, 6, state));
  }
  return proof;
}

TEST(RoundProof, ALeafFollowsTheStateAndTheSamples) {
  const RoundProof proof = a_proof();
  EXPECT_EQ(proof.leaves[0].data_cursor, 600U);
  EXPECT_EQ(proof.leaves[1].data_cursor, 624U);
  EXPECT_EQ(proof.leaves[2].data_cursor, 630U);
  EXPECT_EQ(difference(proof.leaves[1], proof.leaves[1]), "");
  EXPECT_EQ(difference(proof.leaves[0], proof.leaves[1]),
            "the number of steps, the place in the data, the optimizer's number of steps, the "
            "parameters");
  ProofLeaf other = proof.leaves[0];
  other.second_moment = other.params;
  other.residual = other.params;
  EXPECT_EQ(difference(proof.leaves[0], other), "the optimizer's moments, the residual");
}

TEST(RoundProof, AMachineIsNamedWithAllThatBitsDependOn) {
  for (const char* part : {"causeway ", "compiler ", "oneDNN ", "instruction set 0x", "kernels "})
    EXPECT_THAT(machine_kind(), testing::HasSubstr(part));
}

// As docs/proofs.md says, from the file alone.
TEST(RoundProof, RootIsThatOfTheLinesOfItsFile) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "leaves";
  write_proof(file, a_proof());
  std::istringstream lines(*diloco::read_file(file));
  std::string line;
  std::vector<diloco::Digest> hashes;
  std::string head;
  const auto add = [&hashes](const std::string& text) {
    const std::string content = std::string(1, '\0') + text;
    hashes.push_back(diloco::sha256(std::as_bytes(std::span(content))));
  };
  for (int i = 0; std::getline(lines, line); ++i) {
    if (i >= 1 && i <= 3) head += line + "\n";
    if (i == 3) add(head);
    if (i < 4) continue;
    EXPECT_THAT(line, testing::StartsWith("eu-west 12 "));
    add(line);
  }
  ASSERT_EQ(hashes.size(), 4U);
  EXPECT_EQ(diloco::merkle_root(hashes), a_proof().root());
}

TEST(RoundProof, ComesBackFromItsFile) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "leaves";
  write_proof(file, a_proof());
  const RoundProof read = read_proof(file);
  EXPECT_EQ(read.root(), a_proof().root());
  EXPECT_EQ(read.leaves, a_proof().leaves);
  EXPECT_EQ(read.region, "eu-west");
  EXPECT_EQ(read.round, 12U);
  EXPECT_EQ(read.machine, "oneDNN 3, some");
  EXPECT_EQ(read.threads, 2);
  EXPECT_EQ(read.momentum, a_proof().momentum);
}

TEST(RoundProof, WhatIsNoProofIsRefusedByName) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "leaves";
  expect_refusal(Errc::bad_checkpoint, {"leaves is not there"}, [&] { read_proof(file); });
  write_proof(file, a_proof());
  const std::string whole = *diloco::read_file(file);
  const std::size_t first = whole.find("eu-west");
  for (const std::string& text : {std::string(), whole.substr(0, first - 10), "x" + whole,
                                  whole.substr(0, first), whole.substr(0, whole.find('\n', first)),
                                  whole + "eu-west 12 6\n", whole + whole.substr(first) + "z"}) {
    diloco::replace_file(file, text, diloco::Durability::visible);
    expect_refusal(Errc::bad_checkpoint, {"leaves"}, [&] { read_proof(file); });
  }
}

TEST(RoundProof, FilesThatAreTooLargeOrNoneAreNotRead) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "leaves";
  diloco::replace_file(file, std::string(7 * 1024, 'x'), diloco::Durability::visible);
  expect_refusal(Errc::bad_checkpoint, {"leaves is not a proof"}, [&] { read_proof(file, 3); });
  diloco::replace_file(file, std::string(7 * 1024 + 1, 'x'), diloco::Durability::visible);
  expect_refusal(Errc::bad_checkpoint, {"has 7169 bytes, and can have 7168 at most"},
                 [&] { read_proof(file, 3); });
  TrainingState state({}, layout());
  const auto large = directory.path() / "state";
  write_proof_state(large, state);
  std::filesystem::resize_file(large, std::filesystem::file_size(large) + 1);
  expect_refusal(Errc::bad_checkpoint, {"at most"}, [&] { read_proof_state(large, state); });
  expect_refusal(Errc::bad_checkpoint, {"is not a file"}, [&] { read_proof(directory.path()); });
}

TEST(RoundProof, StateComesBackFromItsFile) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "state";
  TrainingState written = numbered_state(), read({}, layout());
  expect_refusal(Errc::bad_checkpoint, {"state is not there"},
                 [&] { read_proof_state(file, read); });
  write_proof_state(file, written);
  read_proof_state(file, read);
  read.optimizer_steps = written.optimizer_steps;
  EXPECT_EQ(leaf_after({}, 0, 1, read), leaf_after({}, 0, 1, written));
  EXPECT_EQ(read.residual, written.residual);
  diloco::replace_file(file, "short", diloco::Durability::visible);
  expect_refusal(Errc::bad_checkpoint, {"has 5 bytes"}, [&] { read_proof_state(file, read); });
}

TEST(RoundProof, OldRoundsGo) {
  const TemporaryDirectory directory;
  diloco::create_private_directories(proof_directory(directory.path()));
  for (const diloco::Round round : {8, 9, 10, 11}) {
    write_proof(proof_leaves_file(directory.path(), round), a_proof());
    write_proof(proof_state_file(directory.path(), round), a_proof());
  }
  remove_old_proofs(directory.path(), 10);
  EXPECT_FALSE(exists(proof_leaves_file(directory.path(), 9)));
  EXPECT_FALSE(exists(proof_state_file(directory.path(), 8)));
  EXPECT_TRUE(exists(proof_leaves_file(directory.path(), 10)));
  EXPECT_TRUE(exists(proof_state_file(directory.path(), 11)));
}

}  // namespace
}  // namespace causeway::intra
