#include "diloco/worker/stream/frame_pieces.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "diloco/files/file_io.h"
#include "inter/base/wire.h"

namespace causeway::diloco {
namespace {

constexpr std::size_t kFilePieceBytes = 256U << 10;

}  // namespace

std::span<const char> FramePieces::next() {
  while (rest().empty()) {
    if (file_) {
      read_file();
    } else if (!waiting_.empty()) {
      begin_file();
    } else if (!frames_.empty()) {
      begin_frame();
    } else {
      break;
    }
  }
  return rest();
}

void FramePieces::set(std::string piece) {
  piece_ = std::move(piece);
  at_ = 0;
}

void FramePieces::begin_frame() {
  Frame frame = std::move(frames_.front());
  frames_.pop_front();
  set(frame_header({frame.bytes.size(), frame.descriptors.size()}) + frame.bytes);
  for (Descriptor& descriptor : frame.descriptors) waiting_.push_back(std::move(descriptor));
}

void FramePieces::begin_file() {
  file_ = std::move(waiting_.front());
  waiting_.pop_front();
  struct stat status {};
  if (::fstat(file_->get(), &status) != 0) throw_errno("fstat", "bytes to send");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  offset_ = 0;
  left_ = size;
  set(inter::little_endian_text(size));
}

void FramePieces::read_file() {
  if (left_ == 0) return file_.reset();
  std::string piece(static_cast<std::size_t>(std::min<std::uint64_t>(kFilePieceBytes, left_)),
                    '\0');
  const ssize_t got =
      ::pread(file_->get(), piece.data(), piece.size(), static_cast<off_t>(offset_));
  if (got < 0 && errno == EINTR) return;
  if (got < 0) throw_errno("read", "bytes to send");
  if (got == 0) {
    throw std::system_error(std::make_error_code(std::errc::io_error),
                            "a file became shorter while it was sent");
  }
  piece.resize(static_cast<std::size_t>(got));
  offset_ += piece.size();
  left_ -= piece.size();
  set(std::move(piece));
}

}  // namespace causeway::diloco
