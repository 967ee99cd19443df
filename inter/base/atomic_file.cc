#include "inter/base/atomic_file.h"

#include <fcntl.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <system_error>

#include "inter/base/pieces.h"
#include "inter/base/text.h"

namespace causeway::inter {
namespace {

constexpr std::string_view kTemporary = ".tmp";
constexpr std::size_t kRandomBytes = 8;

// Nobody can foresee it and put something else there.
std::filesystem::path temporary_name(const std::filesystem::path& name) {
  std::array<std::uint8_t, kRandomBytes> random{};
  if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
    throw std::system_error(errno, std::generic_category(), "cannot draw a random name");
  return name.string() + "." + hex(random) + std::string(kTemporary);
}

std::filesystem::path directory_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path, Through through)
    : directory_(directory_of(path), O_RDONLY | O_DIRECTORY),
      name_(path.filename()),
      gathered_(through == Through::disk ? std::optional<PageBuffer>(kPieceBytes) : std::nullopt) {
  do {  // a remove_leftovers() elsewhere lets it be from the lock on, and may have come before
    temporary_ = temporary_name(name_);
    file_.emplace(directory_, temporary_, O_WRONLY | O_CREAT | O_EXCL);
    file_->wait_for_lock();
  } while (!file_->has_name());
  if (gathered_ && !file_->pass_cache(true)) gathered_.reset();
}

AtomicFile::~AtomicFile() {
  if (!committed_) directory_.remove(temporary_);
}

void AtomicFile::reserve(std::uint64_t size) {
  assert(size_ == 0);
  reserved_ = size;
  file_->reserve(size);
}

void AtomicFile::append(std::span<const std::byte> bytes) {
  if (!gathered_) file_->write_at(size_, bytes);
  size_ += bytes.size();
  if (!gathered_) return;
  const std::span<std::byte> room = gathered_->bytes();
  while (!bytes.empty()) {
    if (gathered_bytes_ == 0 && bytes.size() >= 2 * room.size())
      bytes = bytes.subspan(write_pieces(size_ - bytes.size(), bytes));
    const auto piece = bytes.first(std::min(bytes.size(), room.size() - gathered_bytes_));
    std::memcpy(room.data() + gathered_bytes_, piece.data(), piece.size());
    gathered_bytes_ += piece.size();
    bytes = bytes.subspan(piece.size());
    if (gathered_bytes_ == room.size()) {
      file_->write_at(size_ - bytes.size() - room.size(), room, bytes.size());
      gathered_bytes_ = 0;
    }
  }
}

std::size_t AtomicFile::write_pieces(std::uint64_t offset, std::span<const std::byte> bytes) {
  const std::size_t count = bytes.size() / kPieceBytes;
  const PageBuffer second(kPieceBytes);
  const std::span<std::byte> buffers[] = {gathered_->bytes(), second.bytes()};
  take_turns(count, [&](std::size_t piece, std::size_t thread) {
    const std::size_t begin = piece * kPieceBytes;
    std::memcpy(buffers[thread].data(), &bytes[begin], kPieceBytes);
    file_->write_at(offset + begin, buffers[thread], bytes.size() - begin - kPieceBytes);
  });
  return count * kPieceBytes;
}

// The end of a file may be no whole page.
void AtomicFile::write_gathered() {
  if (!gathered_) return;
  file_->pass_cache(false);
  file_->write_at(size_ - gathered_bytes_, gathered_->bytes().first(gathered_bytes_));
  gathered_.reset();
}

void AtomicFile::overwrite(std::uint64_t offset, std::span<const std::byte> bytes) {
  assert(offset + bytes.size() <= size_);
  write_gathered();
  file_->write_at(offset, bytes);
}

void AtomicFile::sync() {
  write_gathered();
  file_->sync();
}

void AtomicFile::commit(Durability durability) {
  write_gathered();
  if (size_ < reserved_) file_->resize(size_);
  if (durability == Durability::on_disk) file_->sync();
  directory_.rename(temporary_, name_);
  committed_ = true;
  if (durability == Durability::on_disk) directory_.sync();
}

namespace {

void copy_file(const File& from, const std::filesystem::path& to) {
  PageBuffer buffer(std::size_t{256} << 10);
  AtomicFile copy(to);
  std::uint64_t copied = 0;
  while (const std::size_t piece = from.read_at(copied, buffer.bytes())) {
    copy.append(buffer.bytes().first(piece));
    copied += piece;
  }
  copy.commit(Durability::on_disk);
}

}  // namespace

void give_second_name(const std::filesystem::path& file, const std::filesystem::path& second) {
  File directory(directory_of(second), O_RDONLY | O_DIRECTORY);
  File first(file, O_RDONLY);
  first.lock();  // so that remove_leftovers() lets the temporary name be
  const std::filesystem::path temporary = temporary_name(second.filename());
  if (!directory.link(file, temporary)) return copy_file(first, second);
  try {
    directory.rename(temporary, second.filename());
  } catch (const std::system_error&) {
    directory.remove(temporary);
    throw;
  }
  directory.remove(temporary);  // rename leaves it where `second` is a name of this file already
  directory.sync();
}

namespace {

void remove_leftovers_if(
    const std::filesystem::path& directory,
    const std::function<bool(const std::filesystem::directory_entry& file)>& is_ours) {
  File open(directory, O_RDONLY | O_DIRECTORY);
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::filesystem::path name = entry.path().filename();
    const bool regular = entry.symlink_status().type() == std::filesystem::file_type::regular;
    try {
      if (!regular || !is_ours(entry)) continue;
      File found(open, name, O_WRONLY | O_NOFOLLOW);
      if (found.lock()) open.remove(name);  // before another can lock it
    } catch (const std::system_error&) {    // it was renamed meanwhile, or is not ours
    }
  }
}

}  // namespace

void remove_leftovers(const std::filesystem::path& directory) {
  remove_leftovers_if(directory,
                      [](const auto& file) { return file.path().extension() == kTemporary; });
}

void remove_leftovers_of(const std::filesystem::path& file) {
  const std::string begin = file.filename().string() + ".";
  const std::size_t size = begin.size() + 2 * kRandomBytes + kTemporary.size();
  remove_leftovers_if(directory_of(file), [&begin, size](const auto& found) {
    const std::string name = found.path().filename().string();
    return name.size() == size && name.starts_with(begin) && name.ends_with(kTemporary);
  });
}

}  // namespace causeway::inter
