#include "diloco/worker/rank_group.h"

#include <bit>
#include <chrono>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

#include "diloco/files/error.h"
#include "diloco/worker/worker_messages.h"
#include "inter/base/async.h"
#include "inter/base/text.h"

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
  if (sends_no_more_) return;
  stream_->add({message.SerializeAsString(), std::move(descriptors)});
  flush();
}

void WorkerConnection::send_last(const worker_wire::CoordinatorMessage& message) {
  last_sent_ = true;
  send(message);
}

asio::awaitable<void> WorkerConnection::turn_away(const worker_wire::CoordinatorMessage& message) {
  send(message);
  stream_->end();
  co_await inter::end_politely(socket_);
}

void WorkerConnection::flush() {
  if (writing_ || !is_open()) return;
  try {
    if (!stream_->flush()) {
      writing_ = true;
      return tasks_.spawn(flush_later(shared_from_this()));
    }
  } catch (const std::system_error& error) {
    if (error.code() == Errc::coordinator_lost) return end_sending(error);
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

// Most often the worker is gone. One that is there waits for what was to come, and attaches again
// when it sees the end. What it said before is still taken.
void WorkerConnection::end_sending(const std::system_error& why) {
  spdlog::warn("a worker's connection broke: {}", why.what());
  sends_no_more_ = true;
  std::error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
}

asio::awaitable<void> WorkerConnection::flush_later(std::shared_ptr<WorkerConnection> self) {
  std::error_code error;
  co_await self->socket_.async_wait(Socket::wait_write,
                                    asio::redirect_error(asio::use_awaitable, error));
  self->writing_ = false;
  if (!error) self->flush();
}

RankGroup::RankGroup(asio::any_io_executor executor, const WorkerServerOptions& options,
                     WorkerServerHandler& handler)
    : executor_(std::move(executor)), options_(options), handler_(&handler) {}

// Ranks that read other data would take each other's samples for their own.
std::string RankGroup::objection(const AttachRequest& request) const {
  for (const auto& [rank, session] : members()) {
    const auto &own = request.data.of_region, &other = session->request->data.of_region;
    if (!own || !other || rank == request.rank || same_data(*own, *other)) continue;
    return fmt::format(
        "rank {} of {} reads other training data ({}) than rank {} ({}): give both the same files "
        "in data.files and data.validation_files",
        request.rank, options_.region, short_name(*own), rank, short_name(*other));
  }
  return {};
}

void RankGroup::enter(const SessionPointer& session) {
  const std::uint32_t rank = session->request->rank;
  if (members().contains(rank) || roster_.waiting().contains(rank)) {
    spdlog::warn(
        "{}: a worker of rank {} attaches in the place of one whose connection is still open. If "
        "both run, stop one: they take the place from each other again and again",
        options_.region, rank);
  }
  dismiss(roster_.enter(rank, session));
}

void RankGroup::leave(const SessionPointer& session) {
  const std::uint32_t rank = session->request->rank;
  const auto member = members().find(rank);
  const bool is_member = member != members().end() && member->second == session;
  if (stands() && is_member && members().size() > 1) note_end_by(rank);
  dismiss(roster_.leave(rank, session));
}

// A rank that dies as it begins keeps the others from all work, as often as it is started again.
// Another one may be seen to leave first, as it meets nobody any more.
void RankGroup::note_end_by(std::uint32_t leaver) {
  constexpr unsigned kToldFrom = 4;
  ++left_first_[leaver];
  unsigned ends = 0;
  std::string who;
  for (const auto& [rank, times] : left_first_) {
    ends += times;
    inter::append_item(who, times == 1 ? fmt::format("rank {} once", rank)
                                       : fmt::format("rank {} {} times", rank, times));
  }
  if (ends < kToldFrom || !std::has_single_bit(ends)) return;
  spdlog::error(
      "{}: {} gatherings of the ranks in a row ended before anything was contributed. First to "
      "leave: {}. Their logs say why. If one dies as it begins, for want of memory say, do not "
      "start it again before that is mended: the others go on without it when it has been away for "
      "{} s (train.rank_wait_s)",
      options_.region, ends, who,
      std::chrono::duration_cast<std::chrono::seconds>(options_.rank_wait).count());
}

bool RankGroup::take_in_who_waits() {
  if (roster_.waiting().empty()) return false;
  dismiss(roster_.dissolve());
  return true;
}

void RankGroup::disband() {
  handler_ = nullptr;
  roster_ = {};
  patience_.reset();
}

bool RankGroup::is_led_by(const SessionPointer& session) const {
  return stands() && members().begin()->second == session;
}

// After every change of the roster: those whose sessions end by it, and what follows.
void RankGroup::dismiss(const std::vector<SessionPointer>& leaving) {
  for (const SessionPointer& session : leaving) session->close();
  if (handler_ == nullptr) return;
  const bool lost = std::exchange(stood_, roster_.stands()) && !roster_.stands();
  if (lost) handler_->on_worker_lost();
  if (handler_ == nullptr) return;
  if (roster_.stands()) return tell_who_waits();
  if (roster_.members().size() == options_.workers) return go_on();
  tell_who_is_missing();
  if (roster_.members().empty()) {
    patience_.reset();
  } else if (!patience_) {
    patience_.emplace(executor_, options_.rank_wait, [this] { go_on(); });
  }
}

// With those that are there.
void RankGroup::go_on() {
  patience_.reset();
  roster_.stand();
  stood_ = true;
  handler_->on_gathered(*roster_.members().begin()->second->request, missing());
}

std::vector<std::uint32_t> RankGroup::missing() const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < options_.workers; ++rank) {
    if (!roster_.members().contains(rank)) ranks.push_back(rank);
  }
  return ranks;
}

void RankGroup::tell_who_is_missing() {
  std::string ranks;
  for (const std::uint32_t rank : missing()) inter::append_item(ranks, std::to_string(rank));
  for (const auto& [rank, session] : roster_.members())
    session->send(waiting("rank " + ranks + " of " + options_.region + " to attach"));
}

void RankGroup::tell_who_waits() {
  for (const auto& [rank, session] : roster_.waiting())
    session->send(waiting("the other ranks of " + options_.region + " to end their round"));
}

}  // namespace causeway::diloco
