// This region's end of a connection that a third region carries: two sockets that are linked in
// this process. A Connection has one, with TLS from end to end, so that the third region can
// neither read nor change what it carries. What the Connection writes goes to the third region in
// pieces, and what comes from there it reads.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/local/stream_protocol.hpp>

#include "inter/base/async.h"
#include "inter/base/wire.h"
#include "inter/mesh/session.h"

namespace causeway::inter {

// The second half of the nonce in its hello.
inline std::uint64_t detour_number(const SessionNonce& nonce) {
  std::uint64_t number = 0;
  std::memcpy(&number, nonce.data() + nonce.size() - sizeof number, sizeof number);
  return number;
}

class Detour {
 public:
  using Self = std::shared_ptr<Detour>;
  using Socket = asio::local::stream_protocol::socket;

  // `peer`: the region at the other end. `carrier`: the session with the third region.
  Detour(const asio::any_io_executor& executor, std::string peer, std::uint64_t number,
         std::shared_ptr<Session> carrier);

  std::uint64_t number() const { return number_; }
  Socket take_near_end() { return std::move(near_); }  // for the Connection; once

  // Carries both ways until either end closes, or the session with the third region ends. It tells
  // the third region.
  static asio::awaitable<void> run(Self self);
  void take(std::span<const std::byte> bytes);  // that the third region brought
  void finish();                                // nothing follows from there
  void close();

 private:
  static asio::awaitable<void> carry_out(Self self);
  static asio::awaitable<void> carry_in(Self self);
  void tell(Relay::Step step, std::span<const std::byte> bytes = {});

  asio::any_io_executor executor_;
  std::string peer_;
  std::uint64_t number_;
  std::shared_ptr<Session> carrier_;
  Socket near_, far_;
  Bytes arrived_;
  bool finished_ = false;
  Signal wake_;
};

}  // namespace causeway::inter
