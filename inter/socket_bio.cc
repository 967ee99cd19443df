#include "inter/socket_bio.h"

#include <sys/socket.h>

#include <cassert>
#include <cerrno>
#include <cstdint>

namespace causeway::inter {
namespace {

int socket_of(BIO* bio) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio)));
}

bool is_transient(ssize_t result) {
  return result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

constexpr int kMoreFollows = 1 << 16;  // beyond the flags of OpenSSL's own BIOs

int write_some(BIO* bio, const char* data, std::size_t size, std::size_t* written) {
  BIO_clear_retry_flags(bio);
  const int more = BIO_test_flags(bio, kMoreFollows) != 0 ? MSG_MORE : 0;
  const ssize_t result = ::send(socket_of(bio), data, size, MSG_NOSIGNAL | more);
  if (is_transient(result)) {
    BIO_set_retry_write(bio);
  }
  *written = result > 0 ? static_cast<std::size_t>(result) : 0;
  return result > 0 ? 1 : 0;
}

int read_some(BIO* bio, char* data, std::size_t size, std::size_t* got) {
  BIO_clear_retry_flags(bio);
  const ssize_t result = ::recv(socket_of(bio), data, size, 0);
  if (is_transient(result)) {
    BIO_set_retry_read(bio);
  } else if (result == 0) {
    BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    errno = 0;
  }
  *got = result > 0 ? static_cast<std::size_t>(result) : 0;
  return result > 0 ? 1 : 0;
}

long control(BIO* bio, int command, long, void*) {
  switch (command) {
    case BIO_CTRL_FLUSH:
      return 1;
    case BIO_CTRL_EOF:
      return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
    default:
      return 0;
  }
}

const BIO_METHOD* method() {
  static const BIO_METHOD* const kMethod = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    const bool complete = made != nullptr && BIO_meth_set_write_ex(made, write_some) == 1 &&
                          BIO_meth_set_read_ex(made, read_some) == 1 &&
                          BIO_meth_set_ctrl(made, control) == 1;
    assert(complete);
    return made;
  }();
  return kMethod;
}

}  // namespace

void set_more_follows(BIO* bio, bool more) {
  more ? BIO_set_flags(bio, kMoreFollows) : BIO_clear_flags(bio, kMoreFollows);
}

BioPtr make_socket_bio(int socket) {
  BioPtr bio(BIO_new(method()));
  assert(bio != nullptr);
  BIO_set_data(bio.get(), reinterpret_cast<void*>(static_cast<std::intptr_t>(socket)));
  BIO_set_init(bio.get(), 1);
  return bio;
}

}  // namespace causeway::inter
