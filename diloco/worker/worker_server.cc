#include "diloco/worker/worker_server.h"

#include <fcntl.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <asio/local/stream_protocol.hpp>

#include "diloco/files/error.h"
#include "diloco/files/file_io.h"
#include "diloco/log/wire.h"
#include "diloco/worker/rank_group.h"
#include "diloco/worker/stream/frame.h"
#include "diloco/worker/stream/worker_stream.h"
#include "diloco/worker/worker.pb.h"
#include "diloco/worker/worker_door.h"
#include "diloco/worker/worker_messages.h"
#include "inter/base/async.h"

namespace causeway::diloco {
namespace {

using Socket = WorkerConnection::Socket;
using worker_wire::CoordinatorMessage;
using worker_wire::WorkerMessage;

using SessionPointer = RankGroup::SessionPointer;

// Connections that have not attached, beside one for each rank.
constexpr std::size_t kUnattachedMax = 64;

// The payload, unless it can shrink or change under us.
Descriptor sealed(Descriptor file) {
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  constexpr int kNeeded = F_SEAL_SHRINK | F_SEAL_WRITE;
  if (seals < 0 || (seals & kNeeded) != kNeeded) throw_malformed("a payload is not sealed");
  return file;
}

Descriptor open_for_reading(const std::filesystem::path& path) {
  Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) throw_errno("open", path);
  return fd;
}

}  // namespace

class WorkerServer::Implementation : public std::enable_shared_from_this<Implementation> {
 public:
  Implementation(asio::any_io_executor executor, WorkerServerOptions options,
                 WorkerServerHandler& handler)
      : executor_(executor),
        options_(std::move(options)),
        handler_(&handler),
        acceptor_(executor),
        tasks_(executor),
        group_(executor, options_, handler) {}

  std::uint16_t listen(const inter::Endpoint& bind, const inter::Credentials& credentials) {
    // The door is closed before this ends.
    door_.emplace(executor_, options_.region, bind, credentials,
                  [this](Socket socket, std::unique_ptr<WorkerStream> stream, std::string why) {
                    begin(std::move(socket), std::move(stream), std::move(why));
                  });
    return door_->port();
  }

  void start(Descriptor listening) {
    if (door_) door_->start();
    std::error_code ignored;
    const bool listens =
        listening.get() >= 0 && std::filesystem::is_socket(options_.socket, ignored);
    if (!listens) listening = listen_at(options_.socket);
    acceptor_.assign(asio::local::stream_protocol(), listening.release());
    tasks_.spawn(accept(shared_from_this()));
  }

  Descriptor hand_over_listening() {
    return acceptor_.is_open() ? Descriptor(acceptor_.release()) : Descriptor();
  }

  // No handler is called from here on.
  void shut_down() {
    handler_ = nullptr;
    std::error_code ignored;
    acceptor_.close(ignored);
    if (door_) door_->close();
    for (const SessionPointer& session : sessions_) session->close();
    sessions_.clear();
    group_.disband();
  }

  asio::awaitable<void> join() { co_await tasks_.join(); }
  bool attached() const { return group_.stands(); }

  void send_leader(const CoordinatorMessage& message, std::vector<Descriptor> descriptors = {}) {
    if (!group_.stands()) return;
    group_.members().begin()->second->send(message, std::move(descriptors));
  }

  void welcome(const std::string& run_id, bool contributed, bool offers_initial,
               Round snapshot_from) {
    CoordinatorMessage message;
    worker_wire::Attached& attached = *message.mutable_attached();
    attached.set_generation(options_.region + "-" + random_name());
    attached.set_run_id(run_id);
    attached.set_contributed(contributed);
    attached.set_settings(options_.settings);
    attached.set_offers_initial(offers_initial);
    attached.set_snapshot_from(snapshot_from);
    attached.set_world(static_cast<std::uint32_t>(group_.members().size()));
    std::uint32_t rank = 0;
    for (const auto& [configured, session] : group_.members()) {
      attached.set_rank(rank++);
      session->send(message);
    }
  }

  void refuse(const CoordinatorMessage& message) {
    for (const auto& [rank, session] : group_.members()) session->send_last(message);
  }

 private:
  using Self = std::shared_ptr<Implementation>;

  static asio::awaitable<void> accept(Self self) {
    const auto serve_socket = [&self](asio::local::stream_protocol::socket socket) {
      auto stream = make_unix_stream(socket.native_handle());
      self->begin(Socket(std::move(socket)), std::move(stream), {});
    };
    co_await inter::accept_all(self->acceptor_, self->options_.socket.string(), serve_socket);
  }

  void begin(Socket socket, std::unique_ptr<WorkerStream> stream, std::string forbidden) {
    const auto session = std::make_shared<RankSession>(tasks_, std::move(socket), std::move(stream),
                                                       std::move(forbidden));
    // Owned by the session, so that it does not outlive it.
    session->to_attach.emplace(executor_, options_.attach_deadline,
                               [session = session.get()] { session->close(); });
    sessions_.push_back(session);
    make_room();
    tasks_.spawn(session->forbidden.empty() ? serve(shared_from_this(), session)
                                            : turn_away(shared_from_this(), session));
  }

  // Who is being turned away gives way first, then who came first.
  void make_room() {
    std::vector<SessionPointer> waiting;
    std::ranges::copy_if(sessions_, std::back_inserter(waiting),
                         [](const SessionPointer& one) { return one->is_open() && !one->request; });
    if (waiting.size() <= options_.workers + kUnattachedMax) return;
    const auto turned_away = std::ranges::find_if(
        waiting, [](const SessionPointer& one) { return !one->forbidden.empty(); });
    (turned_away == waiting.end() ? waiting.front() : *turned_away)->close();
  }

  static asio::awaitable<void> turn_away(Self self, SessionPointer session) {
    const CoordinatorMessage reason = refusal(session->forbidden);
    co_await session->turn_away(reason);
    self->end(session);
  }

  static asio::awaitable<void> serve(Self self, SessionPointer session) {
    for (;;) {
      // Not in the loop's condition: GCC 12 miscompiles co_await there.
      const bool readable = co_await session->readable();
      if (!readable || !self->read(session)) break;
    }
    self->end(session);
  }

  // False: the session is over. A worker's malformed bytes end its session; all else concerns the
  // coordinator.
  bool read(const SessionPointer& session) {
    try {
      const bool open = session->receive();
      while (std::optional<Frame> frame = session->next()) {
        WorkerMessage message;
        if (!message.ParseFromString(frame->bytes))
          throw_malformed("a worker's message cannot be parsed");
        handle(session, message, std::move(frame->descriptors));
        if (handler_ == nullptr || !session->is_open()) return false;
      }
      return open;
    } catch (const std::system_error& error) {
      if (error.code() != Errc::malformed) throw;
      spdlog::error("a worker's session is closed: {}", error.what());
      return false;
    }
  }

  void handle(const SessionPointer& session, const WorkerMessage& message,
              std::vector<Descriptor> descriptors) {
    if (message.body_case() == WorkerMessage::kAttach) {
      if (message.attach().protocol() != kWorkerProtocol)
        return session->send_last(refusal_of_protocol(message.attach().protocol()));
      return attach(session, to_request(message.attach()));
    }
    if (message.body_case() == WorkerMessage::kDataRead)
      return data_read(session, to_digests(message.data_read()));
    if (!group_.is_led_by(session)) throw_malformed("only rank 0 may speak");
    switch (message.body_case()) {
      case WorkerMessage::kReady:
        if (group_.take_in_who_waits()) return;
        return handler_->on_ready(message.ready().steps());
      case WorkerMessage::kContribute:
        if (descriptors.size() != 1) throw_malformed("a contribution came without its payload");
        group_.note_progress();
        return take_contribution(session, message, std::move(descriptors[0]));
      case WorkerMessage::kApplied:
        return handler_->on_applied(message.applied().version(),
                                    decode_digest(message.applied().state()));
      case WorkerMessage::kOfferSnapshot:
        if (descriptors.size() != 1) throw_malformed("a snapshot came without its file");
        return handler_->on_snapshot(message.offer_snapshot().version(),
                                     decode_digest(message.offer_snapshot().state()),
                                     std::move(descriptors[0]));
      case WorkerMessage::kReport:
        return handler_->on_report(message.report());
      default:
        throw_malformed("a worker's message has no known body");
    }
  }

  // A worker would hand over the same one again and again, and has to hear why it is not taken.
  void take_contribution(const SessionPointer& session, const WorkerMessage& message,
                         Descriptor payload) {
    Contribution contribution;
    try {
      contribution = parse_contribution(message.contribute().contribution());
      payload = sealed(std::move(payload));
    } catch (const std::system_error& error) {
      if (error.code() != Errc::malformed) throw;
      spdlog::error("a worker's contribution is refused: {}", error.what());
      return session->send_last(
          refusal(std::string("its contribution: ") + error.what(), Errc::malformed));
    }
    handler_->on_contribute(contribution, std::move(payload));
  }

  void attach(const SessionPointer& session, AttachRequest request) {
    const bool fits = request.region == options_.region && request.world == options_.workers &&
                      request.rank < options_.workers && !session->request;
    if (!fits) {
      return session->send_last(refusal(fmt::format(
          "this coordinator expects {} workers of {}, not rank {} of {} of {}", options_.workers,
          options_.region, request.rank, request.world, request.region)));
    }
    std::string why = handler_->objection(request);
    if (why.empty()) why = group_.objection(request);
    if (!why.empty()) return session->send_last(refusal(why));
    session->request = std::move(request);
    session->to_attach.reset();
    group_.enter(session);
  }

  void data_read(const SessionPointer& session, const DataDigests& data) {
    if (!session->request) throw_malformed("a worker speaks that has not attached");
    session->request->data = data;
    const std::string why = group_.objection(*session->request);
    if (!why.empty()) return session->send_last(refusal(why));
    if (group_.is_led_by(session)) handler_->on_data_read(data);
  }

  void end(const SessionPointer& session) {
    session->close();
    std::erase(sessions_, session);
    if (session->request) group_.leave(session);
  }

  asio::any_io_executor executor_;
  WorkerServerOptions options_;
  WorkerServerHandler* handler_;  // null once shut down
  asio::local::stream_protocol::acceptor acceptor_;
  std::optional<WorkerDoor> door_;
  inter::TaskGroup tasks_;
  std::vector<SessionPointer> sessions_;
  RankGroup group_;
};

WorkerServer::WorkerServer(asio::any_io_executor executor, WorkerServerOptions options,
                           WorkerServerHandler& handler)
    : implementation_(std::make_shared<Implementation>(executor, std::move(options), handler)) {}

// Coroutines that are still under way hold the implementation and end by themselves.
WorkerServer::~WorkerServer() {
  implementation_->shut_down();
}

std::uint16_t WorkerServer::listen(const inter::Endpoint& bind,
                                   const inter::Credentials& credentials) {
  return implementation_->listen(bind, credentials);
}

void WorkerServer::start(Descriptor listening) {
  implementation_->start(std::move(listening));
}

Descriptor WorkerServer::hand_over_listening() {
  return implementation_->hand_over_listening();
}

asio::awaitable<void> WorkerServer::stop() {
  implementation_->shut_down();
  co_await implementation_->join();
}

bool WorkerServer::attached() const {
  return implementation_->attached();
}

void WorkerServer::welcome(const std::string& run_id, bool contributed, bool offers_initial,
                           Round snapshot_from) {
  implementation_->welcome(run_id, contributed, offers_initial, snapshot_from);
}

void WorkerServer::refuse(const std::string& reason, Errc kind) {
  implementation_->refuse(refusal(reason, kind));
}

void WorkerServer::stored() {
  CoordinatorMessage message;
  message.mutable_stored();
  implementation_->send_leader(message);
}

void WorkerServer::not_stored() {
  CoordinatorMessage message;
  message.mutable_not_stored();
  implementation_->send_leader(message);
}

void WorkerServer::train(const Train& train) {
  implementation_->send_leader(to_message(train));
}

void WorkerServer::continue_training(const Continue& order) {
  implementation_->send_leader(to_message(order));
}

void WorkerServer::call_back() {
  CoordinatorMessage message;
  message.mutable_come_back();
  implementation_->send_leader(message);
}

void WorkerServer::collect(Round round) {
  CoordinatorMessage message;
  message.mutable_collect()->set_round(round);
  implementation_->send_leader(message);
}

void WorkerServer::apply(const CommitRecord& record,
                         const std::vector<std::filesystem::path>& payloads) {
  CoordinatorMessage message;
  message.mutable_apply()->set_record(serialize(record));
  std::vector<Descriptor> descriptors;
  descriptors.reserve(payloads.size());
  for (const std::filesystem::path& payload : payloads) {
    if (descriptors.size() == kFrameDescriptorsMax) {
      CoordinatorMessage before;
      before.mutable_payloads();
      implementation_->send_leader(before, std::exchange(descriptors, {}));
    }
    descriptors.push_back(open_for_reading(payload));
  }
  implementation_->send_leader(message, std::move(descriptors));
}

void WorkerServer::restore(Round version, const Digest& state,
                           const std::filesystem::path& snapshot, std::uint64_t size_bytes) {
  CoordinatorMessage message;
  message.mutable_restore()->set_version(version);
  encode(state, message.mutable_restore()->mutable_state());
  message.mutable_restore()->set_size_bytes(size_bytes);
  std::vector<Descriptor> descriptors;
  descriptors.push_back(open_for_reading(snapshot));
  implementation_->send_leader(message, std::move(descriptors));
}

void WorkerServer::finish(Round version) {
  CoordinatorMessage message;
  message.mutable_finish()->set_version(version);
  implementation_->send_leader(message);
}

void WorkerServer::waiting_for(const std::string& what) {
  implementation_->send_leader(waiting(what));
}

}  // namespace causeway::diloco
