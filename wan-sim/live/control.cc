#include "wan-sim/live/control.h"

#include <sys/stat.h>

#include <list>
#include <system_error>
#include <utility>

#include <asio/io_context.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/read_until.hpp>
#include <asio/write.hpp>

#include "inter/base/async.h"

namespace causeway::wan_sim {
namespace {

using asio::local::stream_protocol;

constexpr std::size_t kLineBytesMax = 4096;

[[noreturn]] void fail(std::error_code error, const std::filesystem::path& path,
                       const std::string& what) {
  throw std::system_error(error, "control socket " + path.string() + ": " + what);
}

bool somebody_listens(const std::filesystem::path& path) {
  asio::io_context context;
  stream_protocol::socket socket(context);
  std::error_code error;
  socket.connect(stream_protocol::endpoint(path.string()), error);
  return !error;
}

std::string take_line(std::string& buffer, std::size_t bytes) {
  std::string line = buffer.substr(0, bytes);
  buffer.erase(0, bytes);
  while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
  return line;
}

}  // namespace

class ControlSocket::Server : public std::enable_shared_from_this<Server> {
 public:
  Server(asio::any_io_executor executor, std::filesystem::path path, Answer answer)
      : acceptor_(executor), tasks_(executor), path_(std::move(path)), answer_(std::move(answer)) {
    if (somebody_listens(path_)) {
      fail(std::make_error_code(std::errc::address_in_use), path_,
           "another wan-sim uses it; stop that or give another path");
    }
    std::error_code error;
    if (std::filesystem::is_socket(path_, error)) {  // of one that ended without removing it
      std::filesystem::remove(path_, error);
    }
    acceptor_.open(stream_protocol());
    const mode_t mask = ::umask(0077);
    acceptor_.bind(stream_protocol::endpoint(path_.string()), error);
    ::umask(mask);
    if (error) fail(error, path_, "cannot listen");
    acceptor_.listen();
  }

  void start() { tasks_.spawn(accept(shared_from_this())); }

  void stop() {
    std::error_code ignored;
    if (!acceptor_.is_open()) return;
    acceptor_.close(ignored);
    for (Client& client : clients_) client.socket.close(ignored);
    std::filesystem::remove(path_, ignored);
  }

 private:
  struct Client {
    stream_protocol::socket socket;
    std::string buffer;
  };
  using Place = std::list<Client>::iterator;

  static asio::awaitable<void> accept(std::shared_ptr<Server> self) {
    const auto serve = [&self](stream_protocol::socket socket) {
      self->read(self->clients_.emplace(self->clients_.end(), Client{std::move(socket), {}}));
    };
    co_await inter::accept_all(self->acceptor_, self->path_.string(), serve);
  }

  void read(Place client) {
    asio::async_read_until(client->socket, asio::dynamic_buffer(client->buffer, kLineBytesMax),
                           '\n', [self = shared_from_this(), client](auto error, auto bytes) {
                             if (error) return self->drop(client);
                             self->reply(client, take_line(client->buffer, bytes));
                           });
  }
  void reply(Place client, const std::string& line) {
    auto text = std::make_shared<std::string>();
    try {
      *text = answer_(line) + "\n";
    } catch (const std::system_error& error) {
      *text = std::string("error: ") + error.what() + "\n";
    }
    asio::async_write(client->socket, asio::buffer(*text),
                      [self = shared_from_this(), client, text](auto error, auto) {
                        if (error) return self->drop(client);
                        self->read(client);
                      });
  }
  void drop(Place client) { clients_.erase(client); }

  stream_protocol::acceptor acceptor_;
  inter::TaskGroup tasks_;
  std::filesystem::path path_;
  Answer answer_;
  std::list<Client> clients_;
};

ControlSocket::ControlSocket(asio::any_io_executor executor, std::filesystem::path path,
                             Answer answer)
    : server_(std::make_shared<Server>(executor, std::move(path), std::move(answer))) {
  server_->start();
}

ControlSocket::~ControlSocket() {
  stop();
}

void ControlSocket::stop() {
  server_->stop();
}

std::string tell(const std::filesystem::path& path, const std::string& line) {
  asio::io_context context;
  stream_protocol::socket socket(context);
  std::error_code error;
  socket.connect(stream_protocol::endpoint(path.string()), error);
  if (error) fail(error, path, "nobody answers; start wan-sim with --control there");
  asio::write(socket, asio::buffer(line + "\n"), error);
  std::string answer;
  if (!error) asio::read_until(socket, asio::dynamic_buffer(answer), '\n', error);
  if (error) fail(error, path, "no answer");
  answer.resize(answer.find('\n'));
  return answer;
}

}  // namespace causeway::wan_sim
