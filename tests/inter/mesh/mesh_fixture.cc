#include "tests/inter/mesh/mesh_fixture.h"

#include <array>
#include <utility>

#include <asio/steady_timer.hpp>
#include <asio/write.hpp>

#include "inter/base/tcp.h"

namespace causeway::inter {

using asio::ip::tcp;

std::vector<std::byte> make_bytes(std::size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) {
    seed = seed * 1664525 + 1013904223;
    byte = static_cast<std::byte>(seed >> 24);
  }
  return bytes;
}

Region::Region(asio::io_context& context, MeshOptions options, std::uint64_t spool_bytes_max)
    : name(options.self),
      spool(directory.path() / "spool", spool_bytes_max),
      mesh(std::make_unique<Mesh>(context.get_executor(), std::move(options), spool, *this)) {}

std::string Region::judge_greeting(const std::string& peer, const std::string& greeting) {
  greetings.push_back(peer + ":" + greeting);
  return judged.empty() || judged == peer ? verdict : "";
}

void Region::on_refused_by(const std::string& peer, const LinkError& refusal) {
  refusals.push_back(peer + ":" + refusal.reason());
}

void Region::on_peer_up(const std::string& peer, const std::string& via) {
  ways[peer] = via;
  ++ups;
}

void Region::on_peer_down(const std::string& peer, const std::string& reason) {
  downs.push_back(peer + ":" + reason);
}

void Region::on_message(const std::string& peer, const std::string& message) {
  messages.push_back(peer + ":" + message);
}

void Region::on_blob(const std::string& from, const BlobId& id) {
  blobs.emplace_back(from, id);
}

void Region::restart(asio::io_context& context, MeshOptions options) {
  mesh.reset();
  mesh = std::make_unique<Mesh>(context.get_executor(), std::move(options), spool, *this);
}

struct CutProxy::Pipe {
  explicit Pipe(asio::io_context& context) : client(context), server(context) {}
  tcp::socket client, server;
  bool first = false;
  bool large = true;  // segments
  bool swallows = false;
  std::size_t passed_bytes = 0;
  std::array<char, 16384> up, down;
};

CutProxy::CutProxy(asio::io_context& context, std::uint16_t target)
    : context_(context),
      acceptor_(context, tcp::endpoint(asio::ip::address_v4::loopback(), 0)),
      target_(target) {}

void CutProxy::accept() {
  const auto pipe = std::make_shared<Pipe>(context_);
  acceptor_.async_accept(
      pipe->client, [self = shared_from_this(), pipe](const std::error_code& error) {
        if (error) {
          return;
        }
        const auto figures = tcp_figures(pipe->client.native_handle());
        pipe->large = !figures || figures->segment_bytes > std::uint32_t{kSmallSegmentBytes};
        const tcp::endpoint target(asio::ip::address_v4::loopback(), self->target_);
        pipe->server.async_connect(target, [self, pipe](const std::error_code& failed) {
          if (!failed) {
            pipe->first = self->pipes_.empty();
            self->pipes_.push_back(pipe);
            self->pump(pipe, true);
            self->pump(pipe, false);
          }
        });
        self->accept();
      });
}

void CutProxy::pump(const std::shared_ptr<Pipe>& pipe, bool forward) {
  tcp::socket& from = forward ? pipe->client : pipe->server;
  auto& buffer = forward ? pipe->up : pipe->down;
  from.async_read_some(asio::buffer(buffer), [self = shared_from_this(), pipe, forward](
                                                 const std::error_code& error, std::size_t size) {
    const Stalled read{pipe, forward, error, size};
    if (self->stalls(*pipe)) {
      self->stalled_pipes_.push_back(read);
    } else {
      self->pass(read);
    }
  });
}

void CutProxy::pass(const Stalled& read) {
  const auto& [pipe, forward, error, size] = read;
  if (resets(*pipe, size)) {
    return;
  }
  if (forward && size >= cut_in_) {
    cut();
    return;
  }
  if (forward && cut_one(*pipe)) {
    return;
  }
  if (forward && pipe->swallows && !error) {
    return pump(pipe, forward);
  }
  forwarded_bytes_ += forward ? size : 0;
  if (forward && pipe->first && recorded_.size() < (1U << 20)) {
    recorded_.append(pipe->up.data(), size);
  }
  cut_in_ -= forward && cut_in_ != ~0ULL ? size : 0;
  tcp::socket& to = forward ? pipe->server : pipe->client;
  if (error) {
    std::error_code ignored;
    to.shutdown(tcp::socket::shutdown_send, ignored);
    return;
  }
  asio::async_write(to, asio::buffer(forward ? pipe->up : pipe->down, size),
                    [self = shared_from_this(), pipe = read.pipe, forward = read.forward](
                        const std::error_code& failed, std::size_t) {
                      if (!failed) {
                        self->pump_on(pipe, forward);
                      }
                    });
}

void CutProxy::swallow() {
  for (const auto& weak : pipes_) {
    if (const auto pipe = weak.lock()) {
      pipe->swallows = !pipe->first;
    }
  }
}

void CutProxy::resume() {
  stalled_ = first_stalled_ = false;
  large_ = Large::pass;
  pause_ = {};
  for (const Stalled& read : std::exchange(stalled_pipes_, {})) {
    pass(read);
  }
}

void CutProxy::pump_on(const std::shared_ptr<Pipe>& pipe, bool forward) {
  if (pause_.count() == 0 || pipe->first) {
    return pump(pipe, forward);
  }
  const auto timer = std::make_shared<asio::steady_timer>(context_, pause_);
  timer->async_wait([self = shared_from_this(), timer, pipe, forward](const std::error_code&) {
    self->pump(pipe, forward);
  });
}

void CutProxy::cut_after(std::uint64_t bytes) {
  cut_in_ = bytes;
}

bool CutProxy::stalls(const Pipe& pipe) const {
  const bool lost = large_ == Large::stall_all || (large_ == Large::stall && !pipe.first);
  return stalled_ || (lost && pipe.large) || (first_stalled_ && pipe.first);
}

// Handshakes pass.
bool CutProxy::resets(Pipe& pipe, std::size_t size) const {
  constexpr std::size_t kHandshakeBytes = 12'000;
  pipe.passed_bytes += size;
  if (large_ != Large::reset_when_used || !pipe.large || pipe.first ||
      pipe.passed_bytes < kHandshakeBytes) {
    return false;
  }
  std::error_code ignored;
  pipe.client.close(ignored);
  pipe.server.close(ignored);
  return true;
}

bool CutProxy::cut_one(Pipe& pipe) {
  if (pipe.first || cuts_of_one_.empty() || forwarded_bytes_ < cuts_of_one_.front()) {
    return false;
  }
  cuts_of_one_.erase(cuts_of_one_.begin());
  std::error_code ignored;
  pipe.client.close(ignored);
  pipe.server.close(ignored);
  return true;
}

void CutProxy::cut() {
  cut_in_ = ~0ULL;
  for (const auto& weak : pipes_) {
    if (const auto pipe = weak.lock()) {
      std::error_code ignored;
      pipe->client.close(ignored);
      pipe->server.close(ignored);
    }
  }
  pipes_.clear();
}

void CutProxy::close() {
  stalled_pipes_.clear();
  std::error_code ignored;
  acceptor_.close(ignored);
  cut();
}

MeshTest::~MeshTest() {
  for (const auto& region : regions_) {
    if (region->mesh) {
      stop(*region->mesh);
    }
  }
  regions_.clear();
  if (HasFailure()) {
    printf("log of the failed test:\n%s", log_.text().c_str());
  }
}

MeshOptions MeshTest::options(const std::string& self) {
  MeshOptions options;
  options.self = self;
  options.bind = {"127.0.0.1", 0};
  options.credentials = pki_.credentials(self);
  options.heartbeat_interval = std::chrono::milliseconds(20);
  options.reconnect_delay_min = std::chrono::milliseconds(10);
  options.reconnect_delay_max = std::chrono::milliseconds(50);
  options.second_dialler_delay = std::chrono::minutes(5);  // but in the tests of it
  return options;
}

Region& MeshTest::add(MeshOptions options, std::uint64_t spool_bytes_max) {
  regions_.push_back(std::make_unique<Region>(context_, std::move(options), spool_bytes_max));
  return *regions_.back();
}

void MeshTest::start_pair(std::uint16_t port) {
  MeshOptions listener = options("b");
  point(listener, "a", 1);
  Region& b = add(listener);
  b.mesh->start();
  MeshOptions dialler = options("a");
  point(dialler, "b", port == 0 ? b.mesh->listening_port() : port);
  add(dialler).mesh->start();
}

void MeshTest::stop(Mesh& mesh) {
  bool stopped = false;
  asio::co_spawn(context_, mesh.stop(), [&](std::exception_ptr) { stopped = true; });
  EXPECT_TRUE(run_until([&] { return stopped; })) << "stop() does not end";
}

bool MeshTest::run_until(const std::function<bool()>& done) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!done()) {
    if (std::chrono::steady_clock::now() > give_up) {
      return false;
    }
    context_.restart();
    context_.run_one_for(std::chrono::milliseconds(100));
  }
  return true;
}

}  // namespace causeway::inter
