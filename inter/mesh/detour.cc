#include "inter/mesh/detour.h"

#include <array>
#include <utility>

#include <asio/buffer.hpp>
#include <asio/local/connect_pair.hpp>
#include <asio/write.hpp>

#include "inter/base/limits.h"

namespace causeway::inter {

Detour::Detour(const asio::any_io_executor& executor, std::string peer, std::uint64_t number,
               std::shared_ptr<Session> carrier)
    : executor_(executor),
      peer_(std::move(peer)),
      number_(number),
      carrier_(std::move(carrier)),
      near_(executor),
      far_(executor),
      wake_(executor) {
  std::error_code error;
  asio::local::connect_pair(near_, far_, error);
  if (error) throw LinkError(error, error.message());
}

asio::awaitable<void> Detour::run(Self self) {
  TaskGroup ways(self->executor_);
  ways.spawn(carry_out(self));
  ways.spawn(carry_in(self));
  co_await ways.join();
}

asio::awaitable<void> Detour::carry_out(Self self) {
  std::array<std::byte, kRelayedBytesMax> piece;
  while (!self->carrier_->is_closed()) {
    std::error_code error;
    const std::size_t size = co_await self->far_.async_read_some(
        asio::buffer(piece), asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
    co_await self->carrier_->wait_for_room();
    self->tell(Relay::Step::bytes, std::span(piece).first(size));
  }
  self->tell(Relay::Step::end);
  self->close();
}

asio::awaitable<void> Detour::carry_in(Self self) {
  while (self->far_.is_open()) {
    if (self->arrived_.empty() && self->finished_) break;
    if (self->arrived_.empty()) {
      co_await self->wake_.wait();
      continue;
    }
    const Bytes bytes = std::exchange(self->arrived_, {});
    std::error_code error;
    co_await asio::async_write(self->far_, asio::buffer(bytes),
                               asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
  }
  self->close();
}

void Detour::tell(Relay::Step step, std::span<const std::byte> bytes) {
  carrier_->relay(FrameType::relay,
                  {.step = step, .number = number_, .region = peer_, .bytes = bytes});
}

void Detour::take(std::span<const std::byte> bytes) {
  if (arrived_.size() + bytes.size() > kRelayedWaitingMax)
    return close();  // a byte that is lost would end it as well
  arrived_.insert(arrived_.end(), bytes.begin(), bytes.end());
  wake_.notify();
}

void Detour::finish() {
  finished_ = true;
  wake_.notify();
}

void Detour::close() {
  std::error_code ignored;
  far_.close(ignored);
  wake_.notify();
}

}  // namespace causeway::inter
