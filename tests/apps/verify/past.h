// Regions' directories of a run of three rounds, as `causeway verify` finds them.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "apps/run/verify/verify.h"
#include "diloco/files/error.h"
#include "diloco/ledger/ledger.h"
#include "inter/blob/spool_files.h"
#include "inter/tls/pki.h"
#include "inter/tls/signature.h"
#include "intra/base/error.h"
#include "intra/outer/state_file.h"
#include "tests/apps/temporary.h"

namespace causeway::run::past {

inline constexpr diloco::Round kRounds = 3;

inline const diloco::Layout& layout() {
  static const diloco::Layout layout({{"embedding", {64, 128}}, {"head", {64, 64}}, {"norm", {7}}});
  return layout;
}

// What a region of a run of three rounds leaves behind, and how it may differ from what it should
// be.
struct Past {
  std::string name;
  std::string run_id = "run-1";
  diloco::Round rounds = kRounds;
  std::function<void(diloco::CommitRecord&)> decide{};  // the records, before they are kept
  std::function<void(diloco::Applied&)> hold{};         // states, as the ledger has them
  std::function<void(diloco::Digest&)> finish{};        // the last one
  std::function<void(intra::OuterState&)> take{};       // the snapshot
  std::function<void(const std::string&, std::string&)> sign{};  // signatures
  bool finishes = true;
  bool holds = true;                          // it signs the states that it contributes from
  diloco::Round snapshot = kRounds - 1;       // its version
  std::optional<diloco::Snapshot> offered{};  // ledger/snapshot
};

inline inter::BlobId id_of(const std::string& content) {
  return inter::identify(std::as_bytes(std::span(content)));
}

inline intra::OuterState state_of(diloco::Round version) {
  intra::OuterState state(layout());
  for (std::size_t i = 0; i < state.anchor.size(); ++i) {
    state.anchor[i] = static_cast<float>(version) + static_cast<float>(i) / 8;
    state.momentum[i] = static_cast<float>(version) - static_cast<float>(i);
  }
  state.version = version;
  state.digest = whole_digest(state);
  return state;
}

inline diloco::CommitRecord record_of(diloco::Round round) {
  return {.run_id = "run-1",
          .round = round,
          .participants = {{.region = "east", .round = round, .weight = 0.5F, .tokens = 10},
                           {.region = "west", .round = round, .weight = 0.5F, .tokens = 10}},
          .state = state_of(round).digest,
          .next_k = 4};
}

class VerifyTest : public testing::Test {
 protected:
  VerifyTest() {
    inter::create_ca(certificates(), "run");
    for (const char* name : {"east", "west"}) inter::add_region(certificates(), name);
  }

  std::filesystem::path certificates() const { return directory_ / "certificates"; }

  std::filesystem::path write(const Past& past) const {
    const std::filesystem::path region = directory_ / past.name;
    std::filesystem::create_directories(region);
    write_ledger(region, past);
    intra::OuterState snapshot = state_of(past.snapshot);
    if (past.take) past.take(snapshot);
    std::filesystem::create_directories(intra::checkpoint_directory(region));
    intra::write_snapshot(intra::snapshot_file(region), layout(), snapshot);
    return region;
  }

  Verification compare(const Past& east, const Past& west) const {
    return verify({write(east), write(west)}, certificates());
  }

  // Why it is refused.
  std::string refusal(const std::vector<std::filesystem::path>& paths) const {
    try {
      verify(paths, certificates());
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), diloco::Errc::lineage);
      return intra::message_of(error);
    }
    ADD_FAILURE() << "not refused";
    return {};
  }

  TemporaryDirectory directory_;

 private:
  void write_ledger(const std::filesystem::path& region, const Past& past) const {
    const inter::SigningKey key(inter::credentials_in(certificates(), past.name).key);
    diloco::Ledger ledger(region / "ledger", [&](const std::string& content) {
      std::string signature = key.sign(content);
      if (past.sign) past.sign(content, signature);
      return signature;
    });
    ledger.set_run_id(past.run_id);
    for (diloco::Round round = 0; round < past.rounds; ++round) {
      diloco::CommitRecord record = record_of(round);
      if (past.decide) past.decide(record);
      diloco::Applied own{.version = round, .state = state_of(round).digest};
      if (past.hold) past.hold(own);
      const std::vector<diloco::LogEntry> entries{{.term = 1, .body = record}};
      ledger.append(entries, past.holds ? std::optional(own) : std::nullopt);
    }
    if (past.offered) ledger.save(*past.offered);
    if (!past.finishes) return;
    diloco::Digest last = state_of(past.rounds).digest;
    if (past.finish) past.finish(last);
    ledger.save_finished(past.rounds, last);
  }
};

}  // namespace causeway::run::past
