// What the parts of the cluster share.
#pragma once

#include <string>

#include "tests/diloco/cluster/cluster.h"

namespace causeway::diloco::testing {

inline constexpr char kRunId[] = "run-1";
inline constexpr std::uint64_t kChunkBytes = 1000;
inline constexpr std::uint64_t kSnapshotBytes = 3000;
inline constexpr std::uint64_t kRealBytes = 60;  // per byte of an imagined blob: a few chunks

inline inter::BlobId make_blob(const std::string& content, std::uint64_t size_bytes) {
  return {.hash = sha256(std::as_bytes(std::span(content))), .size_bytes = size_bytes};
}

inline Digest initial_state() {
  return sha256(std::as_bytes(std::span("initial", 7)));
}

// Of the run that a forked one began with.
inline Digest forked_state() {
  return sha256(std::as_bytes(std::span("forked", 6)));
}

inline Digest next_state(const Digest& state, const CommitRecord& record) {
  const std::string content = to_hex(state) + serialize(record);
  return sha256(std::as_bytes(std::span(content)));
}

}  // namespace causeway::diloco::testing
