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

class FollowedLedger {
 public:
  // `directory`: with ledger/ in it, which `region` signed.
  FollowedLedger(std::filesystem::path directory, std::string region)
      : directory_(std::move(directory)), region_(std::move(region)) {}
  void set_certificate(std::string pem) { certificate_ = std::move(pem); }  // the region's

  // Takes in what was added since.
  void look();
  std::uint64_t size() const { return offsets_.size(); }  // entries
  bool finished() const;

  // From entry `first` on, as many as fit an answer.
  FollowerAnswer answer(std::uint64_t first) const;

 private:
  std::string read(std::size_t begin, std::size_t end) const;

  std::filesystem::path directory_;
  std::string region_, certificate_;
  std::vector<std::size_t> offsets_;  // where each entry begins
  std::size_t end_ = 0;               // of the last whole one
};

}  // namespace causeway::diloco
