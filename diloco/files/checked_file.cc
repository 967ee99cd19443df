#include "diloco/files/checked_file.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>

#include "inter/base/checksum.h"
#include "inter/base/little_endian.h"

namespace causeway::diloco {
namespace {

constexpr std::string_view kCheckedMagic = "CWF1";
constexpr std::size_t kCheckedHeader = kCheckedMagic.size() + sizeof(std::uint64_t);
constexpr char kFirstNumber = 0x08, kFirstMessage = 0x0a;  // tags of field 1

std::uint64_t sum_of(std::string_view content) {
  return inter::checksum(std::as_bytes(std::span(content)));
}

}  // namespace

std::string with_checksum(std::string_view content) {
  return std::string(kCheckedMagic) + inter::little_endian_text(sum_of(content)) +
         std::string(content);
}

std::optional<std::string> without_checksum(std::string_view bytes) {
  // No flip of one bit of the magic makes one of these.
  const bool unchecked =
      !bytes.empty() && (bytes.front() == kFirstNumber || bytes.front() == kFirstMessage);
  if (unchecked) return std::string(bytes);
  if (bytes.size() < kCheckedHeader || !bytes.starts_with(kCheckedMagic)) return std::nullopt;
  const std::string_view content = bytes.substr(kCheckedHeader);
  const auto sum = inter::from_little_endian<std::uint64_t>(bytes.substr(kCheckedMagic.size()));
  if (sum != sum_of(content)) return std::nullopt;
  return std::string(content);
}

std::string line_with_checksum(std::string_view text) {
  std::array<char, 17> sum{};
  std::snprintf(sum.data(), sum.size(), "%016llx", static_cast<unsigned long long>(sum_of(text)));
  return std::string(text) + "\nxxh3 " + sum.data() + "\n";
}

std::optional<std::string> line_without_checksum(std::string_view bytes) {
  const std::string text(bytes.substr(0, bytes.find('\n')));
  if (text.find(' ') != std::string::npos) return std::nullopt;  // the second line's
  if (bytes == text || bytes == text + "\n" || bytes == line_with_checksum(text)) return text;
  return std::nullopt;
}

}  // namespace causeway::diloco
