#include "diloco/follow/follower_server.h"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <list>
#include <map>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include <spdlog/spdlog.h>
#include <asio/co_spawn.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

#include "diloco/files/file_io.h"
#include "diloco/follow/growing_ledger.h"
#include "inter/base/async.h"
#include "inter/base/file.h"
#include "inter/blob/spool_files.h"
#include "inter/frame/frame_body.h"
#include "inter/mesh/connection.h"
#include "inter/mesh/greeting.h"
#include "inter/tls/credential_watch.h"
#include "inter/tls/signature.h"

namespace causeway::diloco {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ConnectionPtr = std::shared_ptr<inter::Connection>;

constexpr std::size_t kFollowersMax = 64;     // connections
constexpr std::size_t kOfOneFollowerMax = 4;  // of them
constexpr std::size_t kQuestionBytesMax = 64;
constexpr std::uint64_t kQuestionCost = 4096;  // bytes, so that questions have a rate too
constexpr seconds kFollowerGreeting{10};
constexpr seconds kLongestAnswer{10};  // until the follower hears that there is nothing new
constexpr seconds kReadsNothing{60};   // TCP's patience with a follower
constexpr seconds kRevocations{2};     // how often to look for followers that were revoked
constexpr seconds kSilenceAtEnd{5}, kPatienceAtEnd{60};
constexpr milliseconds kLookAtEnd{50};

// When the next bytes may go: all followers' together.
class Rate {
 public:
  explicit Rate(std::uint64_t bytes_per_s) : bytes_per_s_(bytes_per_s) {}

  steady_clock::time_point take(std::uint64_t bytes) {
    const auto at = std::max(next_, steady_clock::now());
    next_ = at + std::chrono::nanoseconds(1'000'000'000 * bytes / bytes_per_s_);
    return at;
  }

 private:
  std::uint64_t bytes_per_s_;
  steady_clock::time_point next_{};
};

struct Visitor {
  std::string name;
  ConnectionPtr connection;
  bool wants_weights = false;
  bool owed = false;  // the end, of weights
};

}  // namespace

class FollowerServer::Implementation {
 public:
  explicit Implementation(FollowerServerOptions options)
      : options_(std::move(options)),
        ledger_(options_.directory, options_.signs ? options_.owner : ""),
        rate_(options_.bytes_per_s) {}
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;
  ~Implementation() {
    asio::post(io_, [this] {
      ending_ = true;
      for (const Visitor& one : visitors_)
        one.connection->close(std::make_error_code(std::errc::operation_canceled), "it stops");
      io_.stop();  // nobody is waited for
    });
    if (thread_.joinable()) thread_.join();
  }

  void admit(inter::TlsDoor::Guest guest) {
    if (!begin()) return;
    std::error_code gone;
    const auto protocol = guest.socket.local_endpoint(gone).protocol();
    if (gone) return;
    ++connected_;
    asio::post(io_, [this, protocol, socket = guest.socket.release(),
                     guest = std::make_shared<inter::TlsDoor::Guest>(std::move(guest))] {
      guest->socket = {io_, protocol, socket};
      spawn(serve(guest));
    });
  }

  void tell() {
    if (!thread_.joinable()) return;
    asio::post(io_, [this] {
      if (std::ranges::any_of(visitors_, &Visitor::wants_weights)) make_weights();
      news_.notify();
    });
  }

  asio::awaitable<void> see_off(asio::any_io_executor executor) {
    asio::steady_timer timer(executor);
    const auto begun = steady_clock::now();
    auto moved = begun;
    std::uint64_t sent = sent_bytes_;
    tell();
    // Images and patches take a while, in which nothing is sent.
    const auto until = [&] {
      return owed_ > 0 ? begun + kPatienceAtEnd
                       : std::min(moved + kSilenceAtEnd, begun + kPatienceAtEnd);
    };
    while (connected_ > 0 && steady_clock::now() < until()) {
      timer.expires_after(kLookAtEnd);
      co_await timer.async_wait(asio::use_awaitable);
      if (const std::uint64_t now = sent_bytes_; std::exchange(sent, now) != now)
        moved = steady_clock::now();
    }
  }

 private:
  // Whatever keeps the thread from running is the followers' misfortune, and not the run's.
  bool begin() {
    if (thread_.joinable()) return true;
    try {
      thread_ = std::thread([this] { io_.run(); });
    } catch (const std::system_error& error) {
      log(error.what());
      return false;
    }
    spawn(watch_credentials());
    return true;
  }

  void load_credentials() {
    context_ = inter::make_tls_context(options_.credentials, inter::TlsRole::server);
    ledger_.set_certificate(read_file(options_.credentials.certificate).value_or(""));
  }

  // They may be caught half-way while they are replaced.
  void load_first_credentials() {
    try {
      load_credentials();
    } catch (const std::system_error& error) {
      log(error.what());
    }
  }

  void spawn(asio::awaitable<void> task) {
    asio::co_spawn(io_, std::move(task), [this](const std::exception_ptr& failure) {
      if (!failure) return;
      try {
        std::rethrow_exception(failure);
      } catch (const std::exception& error) {  // a follower's end is the run's least concern
        log(error.what());
      }
    });
  }

  void log(const std::string& text) {
    if (const auto more = failures_.note(text))
      spdlog::info("{}: {}{}", options_.owner, text, *more);
  }

  // ---- One follower ----

  asio::awaitable<void> serve(std::shared_ptr<inter::TlsDoor::Guest> guest) {
    struct Leaving {
      std::atomic<std::size_t>& connected;
      ~Leaving() { --connected; }
    } const leaving{connected_};
    const std::string name = guest->name;
    const auto connection = std::make_shared<inter::Connection>(
        std::move(guest->socket), std::move(guest->stream),
        inter::ConnectionSettings{kQuestionBytesMax, kReadsNothing, {}});
    const auto place = visitors_.insert(visitors_.end(), {name, connection});
    std::string failure;
    try {
      co_await greet(*connection, name);
      for (;;) co_await answer(*place);
    } catch (const inter::LinkError& error) {
      failure = error.reason();
    } catch (const std::system_error& error) {  // its question, or our disk
      failure = error.what();
    }
    if (!ending_) log("follower " + name + ": " + failure);
    co_await see_off_one(*connection);
    owe(*place, false);
    visitors_.erase(place);
    if (std::ranges::find(visitors_, name, &Visitor::name) == visitors_.end()) held_.erase(name);
  }

  // So that the reason of a refusal, already sent, is not lost to a reset.
  asio::awaitable<void> see_off_one(inter::Connection& connection) {
    if (connection.is_closed()) co_return;
    const inter::Deadline deadline(io_.get_executor(), kFollowerGreeting, [&connection] {
      connection.close(inter::Errc::deadline, "it does not close");
    });
    co_await connection.linger();
  }

  asio::awaitable<void> greet(inter::Connection& connection, std::string name) {
    const inter::Deadline deadline(io_.get_executor(), kFollowerGreeting, [&connection] {
      connection.close(inter::Errc::deadline, "no greeting");
    });
    const inter::Hello hello = co_await inter::read_hello(connection);
    std::string objection;
    if (hello.kind != inter::ConnectionKind::follower || hello.sender != name)
      objection =
          "the certificate of \"" + name + "\" is for following a run, and for nothing else";
    if (options_.bytes_per_s == 0)
      objection = "it serves no followers (links.followers_mbit_s = 0)";
    if (visitors_.size() > kFollowersMax) objection = "too many followers are here";
    if (!objection.empty()) co_await inter::refuse(connection, objection);
    make_room_for(name);
    const inter::Bytes accepted = inter::encode_empty(inter::FrameType::accept);
    co_await connection.write(accepted);
  }

  // Its oldest connection may be one that it has lost.
  void make_room_for(const std::string& name) {
    const auto is_its = [&](const Visitor& one) {
      return one.name == name && !one.connection->is_closed();
    };
    if (static_cast<std::size_t>(std::ranges::count_if(visitors_, is_its)) <= kOfOneFollowerMax)
      return;
    std::ranges::find_if(visitors_, is_its)
        ->connection->close(inter::Errc::refused, "it has too many connections");
  }

  asio::awaitable<void> answer(Visitor& visitor) {
    inter::Connection& connection = *visitor.connection;
    const inter::FrameView frame = co_await connection.read();
    if (frame.type == inter::FrameType::message) {
      const std::string text(reinterpret_cast<const char*>(frame.body.data()), frame.body.size());
      const FollowerQuestion question = parse_question(text);
      if (question.weights) {
        visitor.wants_weights = true;
        owe(visitor, true);
        const bool ended = co_await tell_weights(connection, question);
        if (ended) owe(visitor, false);
      } else {
        co_await tell_entries(connection, question);
      }
    } else if (frame.type == inter::FrameType::blob_fetch) {
      const inter::BlobFetch fetch = inter::decode_fetch(frame.body);
      co_await send_blob(connection, visitor.name, fetch);
    } else {
      throw inter::LinkError(inter::Errc::bad_frame,
                             "a follower may not send " + std::string(to_string(frame.type)));
    }
  }

  // Until there is something to tell, where the follower waits for that; for a while at most.
  template <typename HasNews>
  asio::awaitable<void> await_news(bool waits, const HasNews& has_news) {
    bool waited = !waits;
    const inter::Deadline deadline(io_.get_executor(), kLongestAnswer, [this, &waited] {
      waited = true;
      news_.notify();
    });
    while (!has_news() && !waited && !ending_ && !ledger_.finished()) co_await news_.wait();
  }

  asio::awaitable<void> tell_entries(inter::Connection& connection, FollowerQuestion question) {
    co_await pay(kQuestionCost);
    const auto has_news = [&] {
      ledger_.look();
      return ledger_.size() > question.first;
    };
    co_await await_news(question.wait, has_news);
    FollowerAnswer answer = ledger_.answer(question.first, question.most);
    if (question.first == 0) answer.settings = options_.settings;
    const inter::Bytes frame = inter::encode_text(inter::FrameType::message, serialize(answer));
    co_await send(connection, frame);
  }

  void owe(Visitor& visitor, bool owed) {
    if (std::exchange(visitor.owed, owed) != owed) owed ? ++owed_ : --owed_;
  }

  // True: of the run's end, and of the weights then.
  asio::awaitable<bool> tell_weights(inter::Connection& connection, FollowerQuestion question) {
    co_await pay(kQuestionCost);
    const auto has_news = [&] {
      make_weights();
      return shelf_ && shelf_->has_news_for(question);
    };
    co_await await_news(question.wait, has_news);
    FollowerAnswer answer{.run_id = ledger_.run_id(), .first = question.first};
    answer.finished = ledger_.finish();
    if (!question.held) answer.settings = options_.settings;
    offer_weights(question, answer);
    const inter::Bytes frame = inter::encode_text(inter::FrameType::message, serialize(answer));
    co_await send(connection, frame);
    co_return answer.finished && !answer.weights.empty() &&
        answer.weights.back().version == answer.finished->version;
  }

  void offer_weights(const FollowerQuestion& question, FollowerAnswer& answer) {
    if (!shelf_) return;
    answer.weights = {shelf_->weights().begin(), shelf_->weights().end()};
    if (options_.signs) answer.certificate = ledger_.certificate();
    try {
      if (question.held) answer.patch = shelf_->patch_from(*question.held);
    } catch (const std::exception& error) {
      log(error.what());
    }
  }

  // Of the newest snapshot, if it has not been done.
  void make_weights() {
    if (!options_.weights.write_image) return;
    try {
      if (!shelf_) {
        std::function<std::string(const std::string&)> sign;
        if (options_.signs) {
          sign = [key = std::make_shared<inter::SigningKey>(options_.credentials.key)](
                     const std::string& content) { return key->sign(content); };
        }
        shelf_.emplace(options_.directory, options_.weights, std::move(sign));
      }
      if (const auto snapshot = ledger_.snapshot())
        shelf_->take(ledger_.run_id(), *snapshot,
                     inter::blob_path(options_.directory / "spool", snapshot->blob));
    } catch (const std::exception& error) {  // a full disk, or the run let the snapshot go
      log(error.what());
    }
  }

  // What the follower lacks of a payload or a state. What the run lets go meanwhile stays on the
  // disk for the newest transfer of each name: a slow follower gets a state to its end, and none
  // keeps more than one.
  asio::awaitable<void> send_blob(inter::Connection& connection, const std::string& name,
                                  const inter::BlobFetch& fetch) {
    held_[name] = open(fetch.id);
    const std::weak_ptr<const inter::File> held = held_[name];
    inter::ChunkMap missing = fetch.held.inverse();
    inter::Bytes frame;
    bool here = true;
    while (here && !missing.none()) {
      const std::uint64_t chunk = *missing.next(fetch.start, fetch.order);
      frame = inter::encode_chunk(fetch.id, chunk, std::move(frame));
      const auto file = held.expired() ? open(fetch.id) : held.lock();
      const auto into = std::span(frame).last(inter::chunk_bytes(fetch.id, chunk));
      here = file && file->read_at(inter::chunk_offset(fetch.id, chunk), into) == into.size();
      if (!here) frame = inter::encode_id(inter::FrameType::blob_abandon, fetch.id);
      missing.erase(chunk);
      co_await send(connection, frame);
    }
    if (held_[name] == held.lock()) held_[name].reset();
  }

  // Null: it is not here.
  std::shared_ptr<const inter::File> open(const inter::BlobId& id) const {
    const std::filesystem::path spool = options_.directory / "spool";
    for (const auto& path : {inter::blob_path(spool, id), inter::archived_blob_path(spool, id),
                             inter::blob_path(options_.directory / "weights", id)}) {
      try {
        return std::make_shared<const inter::File>(path, O_RDONLY | O_CLOEXEC);
      } catch (const std::system_error&) {  // another place, then
      }
    }
    return nullptr;
  }

  asio::awaitable<void> send(inter::Connection& connection, const inter::Bytes& frame) {
    co_await pay(frame.size());
    co_await connection.write(frame);
    sent_bytes_ += frame.size();
  }

  asio::awaitable<void> pay(std::uint64_t bytes) {
    asio::steady_timer timer(io_, rate_.take(bytes));
    co_await timer.async_wait(asio::use_awaitable);
  }

  asio::awaitable<void> watch_credentials() {
    inter::CredentialWatch watch(options_.owner, options_.credentials);
    asio::steady_timer timer(io_);
    for (;;) {
      if (!context_) load_first_credentials();
      timer.expires_after(kRevocations);
      co_await timer.async_wait(asio::use_awaitable);
      if (!watch.reload([this] { load_credentials(); })) continue;
      for (const Visitor& one : visitors_) one.connection->check_revocation(context_);
    }
  }

  FollowerServerOptions options_;
  std::atomic<std::size_t> connected_{0}, owed_{0};  // outlive the coroutines, which io_ ends
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  GrowingLedger ledger_;
  Rate rate_;
  std::optional<WeightsShelf> shelf_;  // from the first question for weights on
  inter::TlsContext context_;
  inter::Signal news_{io_.get_executor()};
  std::list<Visitor> visitors_;
  std::map<std::string, std::shared_ptr<const inter::File>> held_;  // by name, what is being sent
  inter::LogThrottle failures_;
  bool ending_ = false;
  std::atomic<std::uint64_t> sent_bytes_{0};
  std::thread thread_;
};

FollowerServer::FollowerServer(FollowerServerOptions options)
    : implementation_(std::make_unique<Implementation>(std::move(options))) {}
FollowerServer::~FollowerServer() = default;

void FollowerServer::admit(inter::TlsDoor::Guest guest) {
  implementation_->admit(std::move(guest));
}

void FollowerServer::tell() {
  implementation_->tell();
}

asio::awaitable<void> FollowerServer::see_off(asio::any_io_executor executor) {
  return implementation_->see_off(std::move(executor));
}

}  // namespace causeway::diloco
