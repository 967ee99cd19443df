#include "intra/collective/local_address.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "intra/base/error.h"

namespace causeway::intra {
namespace {

[[noreturn]] void refuse_address(const std::string& host, const std::string& why) {
  throw std::system_error(Errc::collective,
                          "no address of this host on the network of " + host +
                              ", where the ranks meet: " + why +
                              "; set MASTER_ADDR to a host on a network that all ranks reach");
}

std::string numeric(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  const int error =
      ::getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  if (error != 0) throw std::system_error(Errc::collective, ::gai_strerror(error));
  return text.data();
}

// Connecting a datagram socket sends nothing; it only chooses the route.
bool own_end(const addrinfo& target, sockaddr_storage& own, socklen_t& size) {
  const int fd = ::socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  size = sizeof own;
  const bool found = ::connect(fd, target.ai_addr, target.ai_addrlen) == 0 &&
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0;
  const int error = errno;
  ::close(fd);
  errno = error;
  return found;
}

}  // namespace

std::string local_address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  // Any port: nothing is sent there.
  if (const int error = ::getaddrinfo(host.c_str(), "9", &hints, &found); error != 0)
    refuse_address(host, ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> targets(found, ::freeaddrinfo);
  sockaddr_storage own{};
  socklen_t size = 0;
  if (!own_end(*targets, own, size)) refuse_address(host, std::strerror(errno));
  return numeric(reinterpret_cast<const sockaddr*>(&own), size);
}

std::string interface_towards(const std::string& host) {
  const std::string own = local_address_towards(host);
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, ::freeifaddrs);
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (numeric(each->ifa_addr, size) == own) return each->ifa_name;
  }
  return {};
}

}  // namespace causeway::intra
