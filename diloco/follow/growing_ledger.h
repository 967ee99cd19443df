// The entries of a ledger that another thread, or another process, adds to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "diloco/follow/follow_messages.h"
#include "diloco/ledger/ledger_file.h"

namespace causeway::diloco {

class GrowingLedger {
 public:
  // `directory`: with ledger/ in it, which `region` signed. Empty: a follower's, which has others'
  // signatures of a part of it, and tells no more than that.
  GrowingLedger(std::filesystem::path directory, std::string region)
      : directory_(std::move(directory)), region_(std::move(region)) {}
  void set_certificate(std::string pem) { certificate_ = std::move(pem); }  // the region's

  // Takes in what was added since.
  void look();
  std::uint64_t size() const { return size_; }  // entries that can be told
  bool finished() const;
  std::string run_id() const;                // empty: there is no run yet
  std::optional<Snapshot> snapshot() const;  // the newest
  std::optional<Applied> finish() const;     // where the run ended
  const std::string& certificate() const { return certificate_; }

  // From entry `first` on, as many as fit an answer and are wanted; 0: all that fit.
  FollowerAnswer answer(std::uint64_t first, std::uint32_t most = 0) const;

 private:
  std::uint64_t last_told(std::uint64_t first, std::uint32_t most) const;
  std::string read(std::size_t begin, std::size_t end) const;

  std::filesystem::path directory_;
  std::string region_, certificate_;
  std::vector<std::size_t> offsets_;  // where each entry begins
  std::size_t end_ = 0;               // of the last whole one
  std::uint64_t size_ = 0;
  std::vector<SignedHead> heads_;  // of a follower
};

}  // namespace causeway::diloco
