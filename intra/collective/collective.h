// In-region collectives: one process per rank, sums over the region's ranks every step.
// Implementations: Gloo on CPUs (collective_gloo.cc), the group of one (collective_solo.cc), NCCL
// for what lies in a GPU's memory (cuda/device/collective_nccl.cc). One thread at a time per
// object.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "intra/base/error.h"

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
  // Part r goes to rank r. `received`, size() * counts[rank()] long, <- what every rank has for
  // this one, in rank order. As it is here every rank gets everything.
  virtual void exchange_parts(std::span<const float> values, std::span<const std::size_t> counts,
                              std::span<float> received);
};

// Near-equal parts of so many elements for each of `ranks`. They begin at whole cache lines.
std::vector<std::size_t> even_parts(std::size_t elements, std::size_t ranks);
// Where part `index` begins.
std::size_t begin_of_part(std::span<const std::size_t> counts, std::size_t index);

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
  // Asked now and again while the group forms: true, and it is not waited for any longer.
  std::function<bool()> given_up = {};
};

// The group of one.
std::unique_ptr<Collective> make_solo_collective();

// The group of one when world is 1, else Gloo over TCP. Throws std::system_error
// (Errc::collective) if it cannot form in time; every operation throws the same when a rank died or
// hung. After that the group is unusable: form a new one.
std::unique_ptr<Collective> make_collective(const Rendezvous& rendezvous);

// What a group is that hands everything to another one: the base of groups that differ from
// another in some operations.
class ForwardingCollective : public Collective {
 public:
  explicit ForwardingCollective(Collective& group) : group_(group) {}  // which outlives it

  std::size_t rank() const override { return group_.rank(); }
  std::size_t size() const override { return group_.size(); }
  void all_reduce_sum(std::span<float> values) override { group_.all_reduce_sum(values); }
  void reduce_scatter_sum(std::span<float> values, std::span<const std::size_t> counts) override {
    group_.reduce_scatter_sum(values, counts);
  }
  void all_gather_parts(std::span<float> values, std::span<const std::size_t> counts) override {
    group_.all_gather_parts(values, counts);
  }
  void exchange_parts(std::span<const float> values, std::span<const std::size_t> counts,
                      std::span<float> received) override {
    group_.exchange_parts(values, counts, received);
  }
  void broadcast(std::span<std::byte> bytes, std::size_t root) override {
    group_.broadcast(bytes, root);
  }
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) override {
    return group_.all_gather(mine);
  }
  void barrier() override { group_.barrier(); }

 protected:
  Collective& group() { return group_; }

 private:
  Collective& group_;
};

// A rank that fails alone would leave the others waiting for it in the next collective. Work that
// can fail on one rank only (bytes of its own segments, its own disk) runs through this, so that
// all fail together.
template <typename Work>
void together(Collective& collective, const std::string& what, Work&& work) {
  std::exception_ptr failure;
  try {
    work();
  } catch (...) {
    failure = std::current_exception();
  }
  std::array<float, 1> failures{failure ? 1.0F : 0.0F};
  collective.all_reduce_sum(failures);
  if (failure) std::rethrow_exception(failure);
  if (failures[0] > 0) {
    throw std::system_error(Errc::rank_failed,
                            what + " failed on another rank of this region; its log says why");
  }
}

// The lowest of what the ranks give, on all of them.
std::uint64_t lowest_of_ranks(Collective& collective, std::uint64_t own);

// The Gloo implementation of Collective: TCP, on the loopback interface if all ranks are on one
// host.
// Needs a world of at least two. Throws as make_collective does. Gloo applies the deadline to each
// wait for a peer within an operation. An operation fails about a second after the process of a
// rank that takes part died.
std::unique_ptr<Collective> make_gloo_collective(const Rendezvous& rendezvous);

// Where other hosts find this one.

// The numeric address of this host on the network by which `host` is reached. Throws
// std::system_error (Errc::collective) naming the host.
std::string local_address_towards(const std::string& host);

// The interface that has that address, "eth0"; empty if none has it any more. Throws likewise.
std::string interface_towards(const std::string& host);

}  // namespace causeway::intra
