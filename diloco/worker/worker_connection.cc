#include "diloco/worker/worker_connection.h"

#include <system_error>
#include <utility>

#include <spdlog/spdlog.h>

#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

#include "diloco/files/error.h"

namespace causeway::diloco {

WorkerConnection::WorkerConnection(inter::TaskGroup& tasks, Socket socket,
                                   std::unique_ptr<WorkerStream> stream)
    : tasks_(tasks), socket_(std::move(socket)), stream_(std::move(stream)) {}

void WorkerConnection::close() {
  if (!is_open()) return;
  stream_->end();
  std::error_code ignored;
  socket_.close(ignored);
}

asio::awaitable<bool> WorkerConnection::readable() {
  std::error_code error;
  if (stream_->more()) {
    co_await asio::post(socket_.get_executor(), asio::use_awaitable);
  } else {
    co_await socket_.async_wait(Socket::wait_read,
                                asio::redirect_error(asio::use_awaitable, error));
  }
  co_return !error && is_open();
}

bool WorkerConnection::receive() {
  try {
    return stream_->receive();
  } catch (const std::system_error& error) {
    if (error.code() == Errc::malformed) throw;
    spdlog::warn("a worker's connection broke: {}", error.what());
    return false;
  }
}

void WorkerConnection::send(const worker_wire::CoordinatorMessage& message,
                            std::vector<Descriptor> descriptors) {
  stream_->add({message.SerializeAsString(), std::move(descriptors)});
  flush();
}

void WorkerConnection::send_last(const worker_wire::CoordinatorMessage& message) {
  last_sent_ = true;
  send(message);
}

void WorkerConnection::flush() {
  if (writing_ || !is_open()) return;
  try {
    if (!stream_->flush()) {
      writing_ = true;
      return tasks_.spawn(flush_later(shared_from_this()));
    }
  } catch (const std::system_error& error) {
    if (error.code() == Errc::coordinator_lost) return;  // the worker is gone
    // In the middle of a frame, so that nothing can follow.
    spdlog::error("a worker's session is closed, because a message to it cannot be sent: {}",
                  error.what());
    return close();
  }
  if (!last_sent_) return;
  stream_->end();
  std::error_code ignored;
  socket_.shutdown(Socket::shutdown_both, ignored);
}

asio::awaitable<void> WorkerConnection::flush_later(std::shared_ptr<WorkerConnection> self) {
  std::error_code error;
  co_await self->socket_.async_wait(Socket::wait_write,
                                    asio::redirect_error(asio::use_awaitable, error));
  self->writing_ = false;
  if (!error) self->flush();
}

}  // namespace causeway::diloco
