// A Unix socket on which a running scenario is changed: one command a line, one answer a line.
//
//   rate_mbit_s = 5, pair = ["eu", "us"], for_s = 10      the same as in [[event]], now
//   stats                                                 the links' figures as JSON
//
// Threads: the executor's.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include <asio/any_io_executor.hpp>

namespace causeway::wan_sim {

class ControlSocket {
 public:
  // Answers a command; what it throws is answered as "error: ...".
  using Answer = std::function<std::string(const std::string& line)>;

  // Throws std::system_error naming the path if it cannot listen there, or if somebody does
  // already. Only this user may connect.
  ControlSocket(asio::any_io_executor executor, std::filesystem::path path, Answer answer);
  ~ControlSocket();  // removes the socket
  void stop();

 private:
  class Server;
  std::shared_ptr<Server> server_;
};

// Sends one command and returns the answer. Throws std::system_error naming the path.
std::string tell(const std::filesystem::path& path, const std::string& line);

}  // namespace causeway::wan_sim
