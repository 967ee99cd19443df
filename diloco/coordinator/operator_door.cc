#include "diloco/coordinator/operator_door.h"

#include <optional>
#include <system_error>
#include <utility>

#include <spdlog/spdlog.h>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

#include "diloco/files/error.h"
#include "diloco/files/file_io.h"
#include "diloco/worker/stream/frame.h"
#include "inter/base/async.h"

namespace causeway::diloco {
namespace {

constexpr std::chrono::seconds kPatience{5};  // with whoever connects and says nothing
constexpr std::size_t kRequestBytesMax = 64 << 10;

std::filesystem::path socket_in(const std::filesystem::path& directory) {
  return directory / "operator.sock";
}

}  // namespace

OperatorDoor::OperatorDoor(const asio::any_io_executor& executor,
                           const std::filesystem::path& directory, Asked asked)
    : executor_(executor),
      asked_(std::move(asked)),
      acceptor_(executor, asio::local::stream_protocol(),
                listen_at(socket_in(directory)).release()),
      tasks_(executor) {}

asio::awaitable<void> OperatorDoor::stop() {
  std::error_code ignored;
  acceptor_.close(ignored);
  asked_ = nullptr;
  co_await tasks_.join();
}

asio::awaitable<void> OperatorDoor::accept() {
  const auto serve_socket = [this](Socket socket) { tasks_.spawn(serve(std::move(socket))); };
  co_await inter::accept_all(acceptor_, "operator.sock", serve_socket);
}

asio::awaitable<void> OperatorDoor::serve(Socket socket) {
  const inter::Deadline deadline(executor_, kPatience, [&socket] {
    std::error_code ignored;
    socket.close(ignored);
  });
  std::string bytes(kRequestBytesMax, '\0');
  std::error_code error;
  const std::size_t size = co_await asio::async_read(
      socket, asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, error));
  if (error != asio::error::eof || !asked_) co_return;
  bytes.resize(size);
  try {
    const Message message = parse_message(bytes);
    if (const auto* change = std::get_if<ChangeMember>(&message)) asked_(*change);
  } catch (const std::system_error& failure) {
    spdlog::warn("a request of `causeway members` was ignored: {}", failure.what());
  }
}

void ask_coordinator(const std::filesystem::path& directory, const ChangeMember& change) {
  const std::optional<Descriptor> socket = connect_to(socket_in(directory));
  if (!socket) {
    throw std::system_error(make_error_code(Errc::coordinator_lost),
                            "no coordinator runs in " + directory.string() +
                                ": start it, or name the directory of a region that runs");
  }
  const std::string bytes = serialize(Message{change});
  write_all(socket->get(), std::as_bytes(std::span(bytes)), socket_in(directory));
}

}  // namespace causeway::diloco
