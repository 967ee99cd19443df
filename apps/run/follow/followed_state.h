// The run's shared state as a follower computes it: taken from a snapshot, and carried on by the
// worker's own code from one record to the next.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "apps/run/config/config.h"
#include "diloco/log/record.h"
#include "diloco/maths/layout.h"
#include "intra/base/safetensors.h"
#include "intra/collective/collective.h"
#include "intra/outer/outer_round.h"
#include "intra/outer/outer_state.h"

namespace causeway::run {

class FollowedState {
 public:
  // From a file with a snapshot, which must be the state with that digest. Throws
  // intra::Errc::bad_checkpoint if it is not.
  FollowedState(const Config& config, const std::string& run_id,
                const std::filesystem::path& snapshot, diloco::Round version,
                const diloco::Digest& digest);

  diloco::Round version() const { return state_.version; }
  const diloco::Digest& digest() const { return state_.digest; }

  // To the next version. payloads[i] is what participant i of the record sent. Throws
  // std::system_error naming the region whose payload cannot be read.
  void apply(const diloco::CommitRecord& record,
             std::span<const std::span<const std::byte>> payloads);

  // As a snapshot, for the next start. Throws std::system_error naming the file.
  void save(const std::filesystem::path& file) const;
  void write_model(const std::filesystem::path& directory, intra::StoredAs stored) const;

 private:
  const Config& config_;
  diloco::Layout layout_;
  intra::OuterRound round_;
  std::unique_ptr<intra::Collective> alone_;
  intra::OuterState state_;
};

}  // namespace causeway::run
