#include "inter/tls/socket_bio.h"

#include <sys/socket.h>

#include <cassert>
#include <cerrno>
#include <vector>

namespace causeway::inter {
namespace {

struct Socket {
  int descriptor;
  std::size_t gathered_bytes_max = 0;
  std::vector<char> waiting;  // [sent, end) is still to be sent
  std::size_t sent = 0;
};

Socket& socket_of(BIO* bio) {
  return *static_cast<Socket*>(BIO_get_data(bio));
}

bool is_transient(ssize_t result) {
  return result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

ssize_t send_some(const Socket& socket, const char* data, std::size_t size) {
  return ::send(socket.descriptor, data, size, MSG_NOSIGNAL);
}

bool send_waiting(Socket& socket) {
  while (socket.sent < socket.waiting.size()) {
    const ssize_t result =
        send_some(socket, socket.waiting.data() + socket.sent, socket.waiting.size() - socket.sent);
    if (result <= 0) {
      return false;
    }
    socket.sent += static_cast<std::size_t>(result);
  }
  socket.waiting.clear();
  socket.sent = 0;
  return true;
}

int finish_write(BIO* bio, ssize_t result, std::size_t* written) {
  if (is_transient(result)) {
    BIO_set_retry_write(bio);
  }
  *written = result > 0 ? static_cast<std::size_t>(result) : 0;
  return result > 0 ? 1 : 0;
}

int write_some(BIO* bio, const char* data, std::size_t size, std::size_t* written) {
  BIO_clear_retry_flags(bio);
  Socket& socket = socket_of(bio);
  const bool full = socket.waiting.size() + size > socket.gathered_bytes_max;
  if (full && !send_waiting(socket)) {
    return finish_write(bio, -1, written);
  }
  if (size > socket.gathered_bytes_max) {
    return finish_write(bio, send_some(socket, data, size), written);
  }
  socket.waiting.insert(socket.waiting.end(), data, data + size);
  *written = size;
  return 1;
}

int read_some(BIO* bio, char* data, std::size_t size, std::size_t* got) {
  BIO_clear_retry_flags(bio);
  const ssize_t result = ::recv(socket_of(bio).descriptor, data, size, 0);
  if (is_transient(result)) {
    BIO_set_retry_read(bio);
  } else if (result == 0) {
    BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    errno = 0;
  }
  *got = result > 0 ? static_cast<std::size_t>(result) : 0;
  return result > 0 ? 1 : 0;
}

long flush(BIO* bio) {
  BIO_clear_retry_flags(bio);
  if (send_waiting(socket_of(bio))) {
    return 1;
  }
  std::size_t none = 0;
  return finish_write(bio, -1, &none);
}

long control(BIO* bio, int command, long size, void*) {
  switch (command) {
    case BIO_CTRL_FLUSH:
      return flush(bio);
    case BIO_C_SET_BUFF_SIZE:
      socket_of(bio).gathered_bytes_max = static_cast<std::size_t>(size);
      return 1;
    case BIO_CTRL_EOF:
      return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
    default:
      return 0;
  }
}

int destroy(BIO* bio) {
  delete &socket_of(bio);
  return 1;
}

const BIO_METHOD* method() {
  static const BIO_METHOD* const made_once = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    const bool complete = made != nullptr && BIO_meth_set_write_ex(made, write_some) == 1 &&
                          BIO_meth_set_read_ex(made, read_some) == 1 &&
                          BIO_meth_set_ctrl(made, control) == 1 &&
                          BIO_meth_set_destroy(made, destroy) == 1;
    assert(complete);
    return made;
  }();
  return made_once;
}

}  // namespace

BioPtr make_socket_bio(int socket) {
  BioPtr bio(BIO_new(method()));
  assert(bio != nullptr);
  BIO_set_data(bio.get(), new Socket{socket, 0, {}, 0});
  BIO_set_init(bio.get(), 1);
  return bio;
}

}  // namespace causeway::inter
