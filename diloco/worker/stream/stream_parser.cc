#include "diloco/worker/stream/stream_parser.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "diloco/files/file_io.h"
#include "diloco/log/wire.h"
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

namespace {

void seal(const Descriptor& fd) {
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0)
    throw_errno("seal", "received bytes");
}

}  // namespace

void StreamParser::feed(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t taken = blob_left_ > 0 ? take_blob(bytes) : take_head(bytes);
    bytes = bytes.subspan(taken);
    advance();
  }
}

std::optional<Frame> StreamParser::next() {
  if (complete_.empty()) return std::nullopt;
  Frame frame = std::move(complete_.front());
  complete_.pop_front();
  return frame;
}

std::size_t StreamParser::wanted() const {
  switch (stage_) {
    case Stage::header:
      return kFrameHeaderBytes;
    case Stage::message:
      return length_;
    case Stage::blob_size:
      return sizeof(std::uint64_t);
    case Stage::blob:
      return 0;
  }
  return 0;
}

std::size_t StreamParser::take_head(std::span<const std::byte> bytes) {
  const std::size_t taken = std::min(bytes.size(), wanted() - head_.size());
  head_.append(reinterpret_cast<const char*>(bytes.data()), taken);
  return taken;
}

std::size_t StreamParser::take_blob(std::span<const std::byte> bytes) {
  const auto taken = static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), blob_left_));
  write_all(blob_.get(), bytes.first(taken), "received bytes (in memory)");
  blob_left_ -= taken;
  return taken;
}

// As far as what has arrived allows.
void StreamParser::advance() {
  while (head_.size() == wanted() && blob_left_ == 0) {
    switch (stage_) {
      case Stage::header:
        begin_message();
        break;
      case Stage::message:
        frame_.bytes = std::exchange(head_, {});
        next_blob();
        break;
      case Stage::blob_size:
        begin_blob();
        break;
      case Stage::blob:
        seal(blob_);
        frame_.descriptors.push_back(std::move(blob_));
        next_blob();
        break;
    }
    if (stage_ == Stage::header && head_.empty()) return;
  }
}

void StreamParser::begin_message() {
  const FrameHeader header = read_frame_header(head_);
  length_ = header.length;
  blobs_left_ = header.descriptors;
  head_.clear();
  stage_ = Stage::message;
}

void StreamParser::next_blob() {
  if (blobs_left_ > 0) {
    --blobs_left_;
    stage_ = Stage::blob_size;
    return;
  }
  complete_.push_back(std::exchange(frame_, {}));
  stage_ = Stage::header;
}

void StreamParser::begin_blob() {
  blob_left_ = inter::from_little_endian<std::uint64_t>(head_);
  head_.clear();
  if (blob_left_ > inter::kBlobBytesMax) throw_malformed("a frame's bytes are too many");
  blob_ = Descriptor(::memfd_create("received", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (blob_.get() < 0) throw_errno("memfd_create", "received bytes");
  stage_ = Stage::blob;
}

}  // namespace causeway::diloco
