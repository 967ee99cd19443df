// What regions say to each other about a round, as plain values. On the wire and on disk they are
// the Protocol Buffers messages of diloco/protocol.proto; conversion is in record.cc.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "diloco/digest.h"
#include "inter/blob.h"

namespace causeway::diloco {

// Round t takes the anchor from version t to version t + 1. Version 0 is the initial weights.
using Round = std::uint64_t;

// One region's offer for one round; its payload is the blob. (design.md section 3, row 7)
struct Contribution {
  std::string run_id;
  std::string region;
  Round round = 0;
  Round base_version = 0;    // version of the anchor that delta was taken from; equals round here
  std::uint64_t tokens = 0;  // tokens trained on in these K steps
  std::uint64_t data_cursor = 0;  // the region's sample cursor after these steps
  Digest state{};                 // state_digest of the base version (anchor and outer momentum)
  double delta_norm = 0;          // ||delta|| before compression
  double error_norm = 0;          // ||p - Q(p)||
  inter::BlobId payload{};
};

struct Participant {
  std::string region;
  float weight = 0;  // normalised; the fp32 bits are what everyone uses
  std::uint64_t data_cursor = 0;
  std::uint64_t tokens = 0;
  inter::BlobId payload{};
};

// The decision on one round: every region applies exactly this. (design.md section 3, row 9)
struct CommitRecord {
  std::string run_id;
  Round round = 0;
  std::vector<Participant> participants;  // ascending region name; the order of summation
  Digest state{};                         // agreed state digest of version `round`
  std::uint32_t next_k = 0;
};

std::string serialize(const Contribution& contribution);
std::string serialize(const CommitRecord& record);
// Untrusted bytes: throw std::system_error (Errc::malformed) with what is wrong.
Contribution parse_contribution(const std::string& bytes);
CommitRecord parse_commit_record(const std::string& bytes);

}  // namespace causeway::diloco
