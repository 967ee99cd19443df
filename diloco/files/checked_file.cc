#include "diloco/files/checked_file.h"

#include <cstddef>
#include <cstdint>
#include <span>

#include <fmt/format.h>

#include "inter/base/hash.h"
#include "inter/base/wire.h"

namespace causeway::diloco {
namespace {

constexpr std::string_view kCheckedMagic = "CWF1";
constexpr std::size_t kCheckedHeader = kCheckedMagic.size() + sizeof(std::uint64_t);
constexpr const char* kLineFormat = "\nformat 1";
constexpr char kFirstNumber = 0x08, kFirstMessage = 0x0a;  // tags of field 1

std::uint64_t sum_of(std::string_view content) {
  return inter::checksum(std::as_bytes(std::span(content)));
}

// Where the digits stand in a JSON text; npos: it has none.
std::size_t find_sum(std::string_view text) {
  constexpr std::string_view kMember = R"("xxh3": ")";
  const std::size_t found = text.find(kMember);
  const std::size_t digits = found + kMember.size();
  const bool whole = found != std::string_view::npos &&
                     text.size() >= digits + std::string_view(kNoChecksum).size();
  return whole ? digits : std::string_view::npos;
}

}  // namespace

std::string hex_checksum(std::string_view content) {
  return fmt::format("{:016x}", sum_of(content));
}

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
  const std::string checked = std::string(text) + kLineFormat;
  return checked + "\nxxh3 " + hex_checksum(checked) + "\n";
}

std::optional<std::string> line_without_checksum(std::string_view bytes) {
  const std::string text(bytes.substr(0, bytes.find('\n')));
  if (text.find(' ') != std::string::npos) return std::nullopt;  // another line's
  const std::string before = text + "\nxxh3 " + hex_checksum(text) + "\n";
  const bool right =
      bytes == line_with_checksum(text) || bytes == before || bytes == text || bytes == text + "\n";
  return right ? std::optional(text) : std::nullopt;
}

std::string json_with_checksum(std::string text) {
  const std::size_t digits = find_sum(text);
  return text.replace(digits, std::string_view(kNoChecksum).size(), hex_checksum(text));
}

Checksum checksum_of_json(std::string text) {
  const std::size_t digits = find_sum(text);
  const bool has_sum = digits != std::string::npos;
  const bool has_format = text.find(R"("format": )") != std::string::npos;
  if (!has_sum && !has_format) return Checksum::none;
  if (!has_sum || !has_format) return Checksum::wrong;
  const std::string said = text.substr(digits, std::string_view(kNoChecksum).size());
  text.replace(digits, said.size(), kNoChecksum);
  return said == hex_checksum(text) ? Checksum::right : Checksum::wrong;
}

}  // namespace causeway::diloco
