#include <algorithm>
#include <cerrno>
#include <charconv>

#include <asio/error.hpp>
#include <asio/ip/address_v6.hpp>

#include "inter/base/error.h"
#include "inter/mesh/mesh.h"

namespace causeway::inter {
namespace {

[[noreturn]] void bad_address(const std::string& text, const std::string& problem) {
  throw std::system_error(Errc::bad_address,
                          "\"" + text + "\": " + problem +
                              "; expected HOST:PORT or [IPV6]:PORT with a port from 0 to 65535");
}

bool is_host_character(char character) {
  return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
         (character >= '0' && character <= '9') || character == '.' || character == '-' ||
         character == '_';
}

bool is_ipv6(const std::string& host) {
  std::error_code error;
  asio::ip::make_address_v6(host, error);
  return !error;
}

}  // namespace

Endpoint parse_endpoint(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) {
    bad_address(text, "no port");
  }
  Endpoint endpoint;
  endpoint.host = text.substr(0, colon);
  if (endpoint.host.starts_with('[') && endpoint.host.ends_with(']')) {
    endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
    if (!is_ipv6(endpoint.host)) {
      bad_address(text, "no IPv6 address between the brackets");
    }
  } else if (endpoint.host.empty() ||
             !std::all_of(endpoint.host.begin(), endpoint.host.end(), is_host_character)) {
    bad_address(text, "not a host name or address");
  }
  const char* first = text.data() + colon + 1;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(first, last, endpoint.port);
  if (error != std::errc{} || end != last) {
    bad_address(text, "not a port");
  }
  return endpoint;
}

void throw_cannot_listen(const Endpoint& bind, const std::error_code& reason) {
  const bool of_system = reason.category() == asio::error::get_system_category();
  const bool passes =
      (of_system && (reason.value() == EADDRINUSE || reason.value() == EADDRNOTAVAIL)) ||
      reason == Errc::deadline || reason == asio::error::host_not_found_try_again;
  const auto try_again = std::make_error_code(std::errc::resource_unavailable_try_again);
  throw std::system_error(passes ? try_again : make_error_code(Errc::cannot_listen),
                          "cannot listen on " + to_string(bind) + " (" + reason.message() +
                              "): end what uses it, or give another address of this host");
}

std::string to_string(const Endpoint& endpoint) {
  const bool ipv6 = endpoint.host.find(':') != std::string::npos;
  return (ipv6 ? "[" + endpoint.host + "]" : endpoint.host) + ":" + std::to_string(endpoint.port);
}

}  // namespace causeway::inter
