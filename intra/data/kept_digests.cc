#include "intra/data/kept_digests.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>

#include "diloco/files/file_io.h"

namespace causeway::intra {
namespace {

constexpr char kHeading[] = "causeway data digests, version 1\n";
constexpr char kSeal[] = "sha256 ";
// Clocks of file systems tick this often at the least.
constexpr std::int64_t kTick_ns = 2'000'000'000;
constexpr std::size_t kFilesMax = 100'000;  // of whatever runs there were in this directory

std::string seal(std::string_view text) {
  return kSeal + diloco::to_hex(diloco::sha256(std::as_bytes(std::span(text)))) + "\n";
}

std::optional<diloco::Digest> parse_hex(const std::string& hex) {
  diloco::Digest digest{};
  if (hex.size() != 2 * digest.size()) return std::nullopt;
  for (std::size_t i = 0; i < digest.size(); ++i) {
    const auto digit = [&](std::size_t at) {
      return std::string_view("0123456789abcdef").find(hex[at]);
    };
    const std::size_t high = digit(2 * i), low = digit(2 * i + 1);
    if (high > 15 || low > 15) return std::nullopt;
    digest[i] = static_cast<std::uint8_t>(16 * high + low);
  }
  return digest;
}

}  // namespace

KeptDigests::KeptDigests(std::filesystem::path file) : file_(std::move(file)) {
  const std::optional<std::string> text = diloco::read_file(file_);
  if (text) parse(*text);
}

void KeptDigests::parse(const std::string& text) {
  const std::size_t end = text.rfind(kSeal);
  const bool whole = text.starts_with(kHeading) && end != std::string::npos &&
                     text.substr(end) == seal(std::string_view(text).substr(0, end));
  if (!whole) {
    spdlog::warn("{} is damaged, or another version's: all data is read again", file_.string());
    return;
  }
  std::istringstream lines(text.substr(sizeof kHeading - 1, end - (sizeof kHeading - 1)));
  std::string hex;
  FileStamp stamp;
  while (lines >> hex >> stamp.inode >> stamp.size >> stamp.modified_ns >> stamp.changed_ns) {
    if (const auto digest = parse_hex(hex)) digests_[stamp] = *digest;
  }
}

std::optional<diloco::Digest> KeptDigests::find(const FileStamp& stamp) const {
  const auto found = digests_.find(stamp);
  return found == digests_.end() ? std::nullopt : std::optional(found->second);
}

void KeptDigests::add(const FileStamp& stamp, const diloco::Digest& digest,
                      std::int64_t read_at_ns) {
  if (std::max(stamp.modified_ns, stamp.changed_ns) + kTick_ns > read_at_ns) return;
  if (digests_.size() >= kFilesMax) digests_.clear();
  digests_[stamp] = digest;
}

void KeptDigests::save() const {
  std::ostringstream text;
  text << kHeading;
  for (const auto& [stamp, digest] : digests_) {
    text << diloco::to_hex(digest) << " " << stamp.inode << " " << stamp.size << " "
         << stamp.modified_ns << " " << stamp.changed_ns << "\n";
  }
  diloco::replace_file(file_, text.str() + seal(text.str()), diloco::Durability::visible);
}

}  // namespace causeway::intra
