#include "diloco/files/random_name.h"

#include <array>
#include <cstdint>
#include <system_error>

#include <openssl/rand.h>

#include "inter/base/text.h"

namespace causeway::diloco {

namespace {

constexpr std::size_t kNameDigits = 32;

}  // namespace

bool is_random_name(const std::string& text) {
  return text.size() == kNameDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string random_name() {
  std::array<std::uint8_t, kNameDigits / 2> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
    throw std::system_error(std::make_error_code(std::errc::io_error), "no random bytes");
  }
  return inter::hex(bytes);
}

}  // namespace causeway::diloco
