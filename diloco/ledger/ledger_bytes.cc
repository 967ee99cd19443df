#include "diloco/ledger/ledger_bytes.h"

#include <fcntl.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>

namespace causeway::diloco {
namespace {

constexpr std::size_t kPartBytes = 1U << 20;

}  // namespace

LedgerBytes::LedgerBytes(const std::filesystem::path& path)
    : file_(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) {
  const std::optional<std::uint64_t> size = file_.regular_size();
  if (!size) throw std::runtime_error(path.string() + " is not a regular file");
  size_ = *size;
}

std::string_view LedgerBytes::at(std::size_t offset, std::size_t length) {
  offset = std::min(offset, size_);
  length = std::min(length, size_ - offset);
  if (offset < begin_ || offset + length > begin_ + part_.size()) read(offset, length);
  return std::string_view(part_).substr(offset - begin_, length);
}

void LedgerBytes::read(std::size_t offset, std::size_t length) {
  begin_ = offset;
  part_.resize(std::min(std::max(length, kPartBytes), size_ - offset));
  part_.resize(file_.read_at(offset, std::as_writable_bytes(std::span(part_))));
}

}  // namespace causeway::diloco
