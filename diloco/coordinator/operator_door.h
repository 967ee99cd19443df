// What an operator asks of a running coordinator, over a Unix socket in the region's directory that
// only its owner can open: one ChangeMember per connection.
#pragma once

#include <filesystem>
#include <functional>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/local/stream_protocol.hpp>

#include "diloco/log/messages.h"
#include "inter/base/async.h"

namespace causeway::diloco {

class OperatorDoor {
 public:
  using Asked = std::function<void(const ChangeMember&)>;

  // Throws std::system_error naming the socket if it cannot listen there.
  OperatorDoor(const asio::any_io_executor& executor, const std::filesystem::path& directory,
               Asked asked);

  void start() { tasks_.spawn(accept()); }
  asio::awaitable<void> stop();

 private:
  using Socket = asio::local::stream_protocol::socket;
  asio::awaitable<void> accept();
  asio::awaitable<void> serve(Socket socket);

  asio::any_io_executor executor_;
  Asked asked_;
  asio::local::stream_protocol::acceptor acceptor_;
  inter::TaskGroup tasks_;
};

// Hands `change` to the coordinator of this region directory. Throws Errc::coordinator_lost if none
// runs there.
void ask_coordinator(const std::filesystem::path& directory, const ChangeMember& change);

}  // namespace causeway::diloco
