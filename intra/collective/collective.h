// In-region collectives: one process per rank, sums over the region's ranks every step.
// Implementations: Gloo on CPUs (collective_gloo.cc), the group of one (collective_solo.cc), NCCL
// for what lies in a GPU's memory (cuda/device/collective_nccl.cc). One thread at a time per
// object.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace causeway::intra {

class Collective {
 public:
  virtual ~Collective() = default;
  virtual std::size_t rank() const = 0;
  virtual std::size_t size() const = 0;

  // values <- sum over ranks; every rank ends with the same bits.
  virtual void all_reduce_sum(std::span<float> values) = 0;
  // bytes <- root's bytes. Same size on every rank.
  virtual void broadcast(std::span<std::byte> bytes, std::size_t root) = 0;
  // Concatenation in rank order of every rank's bytes, whose sizes may differ.
  virtual std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) = 0;
  virtual void barrier() = 0;

  // Part r of `values` is rank r's, counts[r] long.
  // The own part <- its sum over ranks; what the others hold then is not said. As it is here every
  // part is summed everywhere, with the bits of all_reduce_sum.
  virtual void reduce_scatter_sum(std::span<float> values, std::span<const std::size_t> counts);
  // On entry the own part is right on every rank; on return all are.
  virtual void all_gather_parts(std::span<float> values, std::span<const std::size_t> counts);
};

// How the ranks of a group find each other: a directory they all see, and a name that no earlier
// group used.
struct Rendezvous {
  std::filesystem::path directory;
  std::string generation;
  std::size_t rank = 0;
  std::size_t world = 1;
  std::chrono::milliseconds deadline{60'000};  // of forming the group and of every operation in it
  // On whose network they meet; empty: all are on this host.
  std::string host = {};
};

// The group of one.
std::unique_ptr<Collective> make_solo_collective();

// The group of one when world is 1, else Gloo over TCP. Throws std::system_error
// (Errc::collective) if it cannot form in time; every operation throws the same when a rank died or
// hung. After that the group is unusable: form a new one.
std::unique_ptr<Collective> make_collective(const Rendezvous& rendezvous);

}  // namespace causeway::intra
