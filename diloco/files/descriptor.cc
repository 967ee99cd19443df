#include "diloco/files/descriptor.h"

#include <unistd.h>

namespace causeway::diloco {

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace causeway::diloco
