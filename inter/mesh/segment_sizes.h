// Which connections are made with small segments, as large packets may be lost on the way, and when
// large ones are tried again: a path that was dark for a while looks the same. Internal to inter
// and to followers.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>

#include <asio/ip/tcp.hpp>

#include "inter/base/limits.h"
#include "inter/base/retry.h"

namespace causeway::inter {

// Of control connections, whose messages are small: at which addresses.
class SmallSegments {
 public:
  using Address = asio::ip::tcp::endpoint;

  bool at(const Address& address) const { return addresses_.contains(address); }
  // A connection was made there and then nothing was answered: one of the two gets through.
  void turn(const Address& address) {
    if (addresses_.erase(address) > 0) return;
    if (addresses_.size() >= kAddressesMax) addresses_.clear();
    addresses_.insert(address);
  }
  void forget(const Address& address) { addresses_.erase(address); }

 private:
  static constexpr std::size_t kAddressesMax = 64;  // names may have ever new ones
  std::set<Address> addresses_;
};

// Of one data connection, which is dialled again whenever it is lost.
class SegmentSize {
 public:
  // `small_for`: before large ones are tried again; twice as long each time that they are lost.
  SegmentSize(std::chrono::milliseconds small_for, std::uint64_t seed)
      : small_for_(small_for, kLongest * small_for, seed) {}

  bool small() const { return small_; }
  void turn() { small_ = !small_; }  // it was made, and then nothing was answered
  void try_large() { small_ = false; }
  std::chrono::milliseconds small_for() { return small_for_.next(); }

  // It ended. One that did so soon and moved nothing, be it one way, gets other segments: something
  // on the way may drop large ones.
  void on_end(std::chrono::steady_clock::duration lasted, std::uint64_t received_bytes,
              std::uint64_t acked_bytes) {
    const bool moved = std::min(received_bytes, acked_bytes) >= kMovedBytesMin;
    if (moved && !small_) small_for_.reset();
    if (!moved && lasted < kSoon) turn();
  }

 private:
  static constexpr int kLongest = 64;
  static constexpr std::chrono::minutes kSoon{2};

  Backoff small_for_;
  bool small_ = false;
};

}  // namespace causeway::inter
