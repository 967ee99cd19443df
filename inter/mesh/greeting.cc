#include "inter/mesh/greeting.h"

#include "inter/base/async.h"
#include "inter/base/text.h"

namespace causeway::inter {
namespace {

[[noreturn]] void unexpected(const FrameView& frame) {
  throw LinkError(Errc::bad_frame, "invalid frame: " + std::string(to_string(frame.type)) +
                                       " before the greeting was over");
}

std::string verdict_of(const FrameView& frame) {
  if (frame.type == FrameType::accept) return "";
  if (frame.type != FrameType::refuse) unexpected(frame);
  const std::string reason = decode_reason(frame.body);
  return reason.empty() ? "no reason given" : reason;
}

Bytes encode_verdict(const std::string& reason) {
  return reason.empty() ? encode_empty(FrameType::accept)
                        : encode_text(FrameType::refuse, reason.substr(0, kReasonBytesMax));
}

}  // namespace

asio::awaitable<Verdicts> greet_listener(Connection& connection, const std::string& peer,
                                         const Hello& mine, const Judge& judge) {
  const Bytes hello = encode(mine);
  co_await connection.write(hello);
  const FrameView answer = co_await connection.read();
  Verdicts verdicts;
  if (answer.type == FrameType::refuse) {
    verdicts.theirs = verdict_of(answer);
    co_return verdicts;
  }
  if (answer.type != FrameType::hello) unexpected(answer);
  const Hello theirs = decode_hello(answer.body);
  if (theirs.sender != peer) {
    throw LinkError(Errc::refused, "the peer greets as \"" + printable(theirs.sender) +
                                       "\", not as \"" + peer + "\"");
  }
  verdicts.ours = judge(theirs.greeting);
  const FrameView verdict = co_await connection.read();
  verdicts.theirs = verdict_of(verdict);
  const Bytes reply = encode_verdict(verdicts.ours);
  co_await connection.write(reply);
  co_return verdicts;
}

asio::awaitable<Verdicts> greet_dialler(Connection& connection, const Hello& theirs,
                                        const Hello& mine, const Judge& judge) {
  Verdicts verdicts;
  verdicts.ours = judge(theirs.greeting);
  const Bytes hello = encode(mine);
  co_await connection.write(hello);
  const Bytes reply = encode_verdict(verdicts.ours);
  co_await connection.write(reply);
  const FrameView verdict = co_await connection.read();
  verdicts.theirs = verdict_of(verdict);
  co_return verdicts;
}

asio::awaitable<std::string> join_session(Connection& connection, const Hello& mine) {
  const Bytes hello = encode(mine);
  co_await connection.write(hello);
  const FrameView verdict = co_await connection.read();
  co_return verdict_of(verdict);
}

std::string unanswered(const std::string& what, std::chrono::milliseconds deadline) {
  return what + " within " + seconds_text(deadline) +
         ", though the connection stands: the other end hangs, or large packets are lost on the "
         "way (MTU); `causeway doctor` tells which";
}

asio::awaitable<Hello> read_hello(Connection& connection) {
  const FrameView frame = co_await connection.read();
  if (frame.type == FrameType::refuse)
    throw LinkError(Errc::refused, "the peer refused us: " + decode_reason(frame.body));
  if (frame.type != FrameType::hello) unexpected(frame);
  co_return decode_hello(frame.body);
}

asio::awaitable<void> refuse(Connection& connection, const std::string& reason) {
  const Bytes frame = encode_text(FrameType::refuse, reason.substr(0, kReasonBytesMax));
  co_await connection.write(frame);
  throw LinkError(Errc::refused, reason);
}

}  // namespace causeway::inter
