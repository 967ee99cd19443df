#include "diloco/follow/follower_link.h"

#include <chrono>
#include <system_error>
#include <utility>
#include <vector>

#include "inter/base/async.h"
#include "inter/base/limits.h"
#include "inter/base/tcp.h"
#include "inter/frame/frame_body.h"
#include "inter/mesh/greeting.h"
#include "inter/mesh/resolve.h"

namespace causeway::diloco {
namespace {

using inter::FrameType;
using inter::LinkError;

constexpr std::chrono::milliseconds kSilenceMax{30'000};  // of somebody who owes an answer

[[noreturn]] void throw_unasked(const inter::FrameView& frame) {
  throw LinkError(inter::Errc::bad_frame,
                  "it sends " + std::string(to_string(frame.type)) + ", which was not asked for");
}

}  // namespace

asio::awaitable<std::unique_ptr<FollowerLink>> FollowerLink::open(asio::any_io_executor executor,
                                                                  Settings settings) {
  std::unique_ptr<FollowerLink> link(new FollowerLink(executor, std::move(settings)));
  co_await link->connect();
  co_return link;
}

FollowerLink::~FollowerLink() {
  const auto now = std::chrono::steady_clock::now();
  if (small_since_ && now - *small_since_ >= settings_.small_segments_for)
    settings_.small_segments->forget(endpoint_);
}

asio::awaitable<void> FollowerLink::connect() {
  const std::vector<asio::ip::tcp::endpoint> endpoints =
      co_await inter::resolve(settings_.address, settings_.open_deadline);
  LinkError failure(inter::Errc::bad_address, "the name has no address");
  for (const asio::ip::tcp::endpoint& endpoint : endpoints) {
    try {
      co_await connect_to(endpoint);
      co_return;
    } catch (const LinkError& error) {
      failure = error;
    }
  }
  throw failure;
}

asio::awaitable<void> FollowerLink::connect_to(asio::ip::tcp::endpoint endpoint) {
  endpoint_ = endpoint;
  asio::ip::tcp::socket socket(executor_);
  std::error_code error;  // a host may not have this version of IP
  socket.open(endpoint.protocol(), error);
  if (error) throw LinkError(error, error.message());
  const bool small = settings_.small_segments->at(endpoint);
  if (small) inter::limit_segments(socket.native_handle(), inter::kSmallSegmentBytes);
  connection_ = std::make_unique<inter::Connection>(
      std::move(socket), settings_.context,
      inter::ConnectionSettings{kFollowerMessageBytesMax, kSilenceMax, {}});
  connection_->count_into(traffic_);
  bool stands = false;
  const auto limit = settings_.open_deadline;
  const inter::Deadline deadline(executor_, limit, [&] {
    if (stands) settings_.small_segments->turn(endpoint);
    connection_->close(inter::Errc::deadline,
                       stands ? inter::unanswered("no answer", limit)
                              : "no TCP connection within " + inter::seconds_text(limit));
  });
  co_await connection_->connect(endpoint);
  stands = true;
  co_await greet();
  if (small) small_since_ = std::chrono::steady_clock::now();
}

asio::awaitable<void> FollowerLink::greet() {
  const std::string there = co_await connection_->handshake();
  if (there != settings_.region) {
    throw LinkError(inter::Errc::bad_address, "the certificate there is that of " + there);
  }
  const inter::Bytes hello =
      encode(inter::Hello{inter::ConnectionKind::follower, {}, settings_.self, {}});
  co_await connection_->write(hello);
  const inter::FrameView verdict = co_await connection_->read();
  if (verdict.type == FrameType::refuse)
    throw LinkError(inter::Errc::refused, "it refuses: " + inter::decode_reason(verdict.body));
  if (verdict.type != FrameType::accept) throw_unasked(verdict);
}

asio::awaitable<inter::FrameView> FollowerLink::read() {
  const inter::Deadline deadline(executor_, kSilenceMax, [this] {
    if (received_bytes() < inter::kMovedBytesMin) settings_.small_segments->turn(endpoint_);
    connection_->close(inter::Errc::deadline,
                       "it says nothing for " + inter::seconds_text(kSilenceMax));
  });
  co_return co_await connection_->read();
}

asio::awaitable<FollowerAnswer> FollowerLink::ask(FollowerQuestion question) {
  const inter::Bytes frame = inter::encode_text(FrameType::message, serialize(question));
  co_await connection_->write(frame);
  const inter::FrameView answer = co_await read();
  if (answer.type != FrameType::message) throw_unasked(answer);
  const auto* const text = reinterpret_cast<const char*>(answer.body.data());
  FollowerAnswer parsed;
  try {
    parsed = parse_answer({text, answer.body.size()});
  } catch (const std::system_error& error) {
    throw LinkError(inter::Errc::bad_frame, error.what());
  }
  if (parsed.first != question.first)
    throw LinkError(inter::Errc::bad_frame, "it answers another question");
  co_return parsed;
}

asio::awaitable<bool> FollowerLink::fetch(inter::BlobId id, inter::Spool& spool) {
  if (spool.has(id)) co_return true;
  inter::ChunkMap held = spool.held(id);
  if (held.all()) {
    spool.check(id);
    co_return true;
  }
  const inter::Bytes ask = encode(inter::BlobFetch{.id = id, .start = 0, .held = held});
  co_await connection_->write(ask);
  for (;;) {
    const inter::FrameView frame = co_await read();
    if (frame.type == FrameType::blob_abandon && inter::decode_id(frame.body) == id)
      co_return false;
    if (frame.type != FrameType::blob_chunk) throw_unasked(frame);
    const inter::BlobChunk chunk = inter::decode_chunk(frame.body);
    if (chunk.id != id || held.has(chunk.chunk)) throw_unasked(frame);
    held.insert(chunk.chunk);
    if (!spool.write(id, chunk.chunk, chunk.bytes)) continue;
    spool.check(id);
    co_return true;
  }
}

void FollowerLink::close() {
  if (connection_)
    connection_->close(std::make_error_code(std::errc::operation_canceled), "it is not needed");
}

}  // namespace causeway::diloco
