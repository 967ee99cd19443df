// Answers followers, whose certificates let them read a run and do nothing else: its records,
// states and payloads, as they lie in a directory with ledger/ and spool/. All on a thread of its
// own, which begins with the first follower, and within a rate that all of them share: whatever
// they ask, the run goes on beside it.
//
// Weights alone (weights_shelf.h) are made on the first question for them, and then for each
// snapshot while somebody who asked is connected.
//
// A follower holds little: a connection, a chunk and a place among the few that each name has.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include "diloco/follow/weights_shelf.h"
#include "inter/door/tls_door.h"
#include "inter/tls/pki.h"

namespace causeway::diloco {

struct FollowerServerOptions {
  std::string owner;                // who says so in the log
  bool signs = true;                // it is a region, which signed the ledger; or else a follower
  std::filesystem::path directory;  // its
  inter::Credentials credentials;
  std::string settings;           // that all regions share
  std::uint64_t bytes_per_s = 0;  // to all followers together; 0: nobody is served
  WeightsTools weights = {};      // without them it offers none
};

class FollowerServer {
 public:
  explicit FollowerServer(FollowerServerOptions options);
  ~FollowerServer();  // closes what is open

  // Whoever showed a follower's certificate. Called on the executor of the guest's socket.
  void admit(inter::TlsDoor::Guest guest);
  // The ledger has more entries, or the run a newer snapshot, or an end. Any thread.
  void tell();
  // The run is over: until those who are here have what they lack, and are gone, or do not get on.
  // On any executor.
  asio::awaitable<void> see_off(asio::any_io_executor executor);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace causeway::diloco
