#include "diloco/worker/stream/frame.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>

#include <fmt/format.h>

#include "diloco/files/error.h"
#include "diloco/files/file_io.h"
#include "inter/base/wire.h"

namespace causeway::diloco {
namespace {

constexpr std::size_t kReadBytes = 64U << 10;

// Room for one control message with the most descriptors.
struct ControlBuffer {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kFrameDescriptorsMax * sizeof(int))> bytes{};
};

void attach_descriptors(const std::vector<Descriptor>& descriptors, msghdr& message,
                        ControlBuffer& control) {
  message.msg_control = control.bytes.data();
  message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
  for (std::size_t i = 0; i < descriptors.size(); ++i) {
    const int fd = descriptors[i].get();
    std::memcpy(CMSG_DATA(header) + i * sizeof(int), &fd, sizeof(int));
  }
}

void take_descriptors(msghdr& message, std::deque<Descriptor>& out) {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      out.emplace_back(fd);
    }
  }
}

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK;
}

constexpr const char* kOpenFiles = "/proc/self/fd";

// Below 0: it cannot be opened.
Descriptor open_directory_of(const std::filesystem::path& path) {
  const std::filesystem::path parent = path.parent_path();
  return Descriptor(
      ::open(parent.empty() ? "." : parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

// A socket's address: its path, or where that is too long, the way through its directory's
// descriptor, which is short.
struct Address {
  explicit Address(const std::filesystem::path& path) {
    if (take(path.string())) return;
    check_open_files(path);
    directory = open_directory_of(path);
    is_known = directory.get() >= 0;
    if (!is_known) return;
    if (!take(fmt::format("{}/{}/{}", kOpenFiles, directory.get(), path.filename().string())))
      throw std::system_error(ENAMETOOLONG, std::generic_category(), path.string());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }

  // False: it is too long.
  bool take(const std::string& text) {
    if (text.size() >= sizeof address.sun_path) return false;
    std::memcpy(address.sun_path, text.c_str(), text.size() + 1);
    return true;
  }
  void check_open_files(const std::filesystem::path& path) const {
    if (::access(kOpenFiles, F_OK) == 0) return;
    throw std::system_error(
        ENOENT, std::generic_category(),
        fmt::format("{} is longer than the {} bytes of a socket's address, and {}, which leads to "
                    "longer ones, is not there: mount /proc, or give a shorter directory",
                    path.string(), sizeof address.sun_path - 1, kOpenFiles));
  }

  bool is_known = true;  // false: its directory cannot be opened
  Descriptor directory;
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
};

Descriptor make_socket() {
  Descriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) throw std::system_error(errno, std::generic_category(), "socket");
  return fd;
}

}  // namespace

bool FrameReader::receive(int socket) {
  for (;;) {
    std::array<char, kReadBytes> piece;
    iovec part{.iov_base = piece.data(), .iov_len = piece.size()};
    ControlBuffer control;
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes.data();
    message.msg_controllen = control.bytes.size();
    const ssize_t got = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && would_block()) return true;
    if (got <= 0) return false;
    take_descriptors(message, descriptors_);
    if ((message.msg_flags & MSG_CTRUNC) != 0) {
      throw std::system_error(make_error_code(Errc::malformed), "too many descriptors in a frame");
    }
    buffer_.append(piece.data(), static_cast<std::size_t>(got));
    if (buffer_.size() >= kFrameHeaderBytes &&
        inter::from_little_endian<std::uint32_t>(buffer_) > kFrameBytesMax) {
      throw std::system_error(make_error_code(Errc::malformed), "a frame is too large");
    }
    const bool full = buffer_.size() > kFrameHeaderBytes + kFrameBytesMax ||
                      descriptors_.size() >= kFrameDescriptorsMax;
    if (full) return true;  // the caller takes some first
  }
}

namespace {

void check(const FrameHeader& header) {
  if (header.length > kFrameBytesMax || header.descriptors > kFrameDescriptorsMax)
    throw std::system_error(make_error_code(Errc::malformed), "a frame is too large");
}

}  // namespace

std::string frame_header(const FrameHeader& header) {
  check(header);
  return inter::little_endian_text(static_cast<std::uint32_t>(header.length)) +
         inter::little_endian_text(static_cast<std::uint32_t>(header.descriptors));
}

FrameHeader read_frame_header(std::string_view bytes) {
  const FrameHeader header{inter::from_little_endian<std::uint32_t>(bytes),
                           inter::from_little_endian<std::uint32_t>(bytes.substr(4))};
  check(header);
  return header;
}

std::optional<Frame> FrameReader::next() {
  if (buffer_.size() < kFrameHeaderBytes) return std::nullopt;
  const auto [length, count] = read_frame_header(buffer_);
  if (buffer_.size() - kFrameHeaderBytes < length) return std::nullopt;
  if (descriptors_.size() < count) {
    throw std::system_error(make_error_code(Errc::malformed), "a frame lacks descriptors");
  }
  Frame frame{.bytes = buffer_.substr(kFrameHeaderBytes, length), .descriptors = {}};
  std::move(descriptors_.begin(), descriptors_.begin() + static_cast<std::ptrdiff_t>(count),
            std::back_inserter(frame.descriptors));
  descriptors_.erase(descriptors_.begin(),
                     descriptors_.begin() + static_cast<std::ptrdiff_t>(count));
  buffer_.erase(0, kFrameHeaderBytes + length);
  return frame;
}

void FrameWriter::add(Frame frame) {
  frame.bytes.insert(0, frame_header({frame.bytes.size(), frame.descriptors.size()}));
  frames_.push_back(std::move(frame));
}

bool FrameWriter::flush(int socket) {
  while (!frames_.empty()) {
    Frame& frame = frames_.front();
    iovec part{.iov_base = frame.bytes.data() + begun_, .iov_len = frame.bytes.size() - begun_};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    ControlBuffer control;
    if (begun_ == 0 && !frame.descriptors.empty()) {
      attach_descriptors(frame.descriptors, message, control);
    }
    const ssize_t sent = ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && would_block()) return false;
    if (sent < 0) {
      throw std::system_error(make_error_code(Errc::coordinator_lost), std::strerror(errno));
    }
    begun_ += static_cast<std::size_t>(sent);
    sent_bytes_ += static_cast<std::uint64_t>(sent);
    if (begun_ < frame.bytes.size()) continue;
    frames_.pop_front();
    begun_ = 0;
  }
  return true;
}

Descriptor listen_at(const std::filesystem::path& path) {
  std::filesystem::remove(path);  // the ledger's lock says that whoever made it is dead
  const Address address(path);
  if (!address.is_known) throw_errno("open directory of", path);
  Descriptor socket = make_socket();
  if (::bind(socket.get(), address.get(), sizeof address.address) != 0) throw_errno("bind", path);
  // Nobody can connect before listen().
  if (::chmod(path.c_str(), 0600) != 0) throw_errno("chmod", path);
  if (::listen(socket.get(), SOMAXCONN) != 0) throw_errno("listen", path);
  return socket;
}

std::optional<Descriptor> connect_to(const std::filesystem::path& path) {
  const Address address(path);
  if (!address.is_known) return std::nullopt;
  Descriptor socket = make_socket();
  if (::connect(socket.get(), address.get(), sizeof address.address) == 0) return socket;
  const bool nobody = errno == ENOENT || errno == ENOTDIR || errno == ECONNREFUSED || would_block();
  const int why = errno;
  // The directory may be away for a moment, as its server is.
  if (nobody || open_directory_of(path).get() < 0) return std::nullopt;
  errno = why;
  throw_errno("connect", path);
}

}  // namespace causeway::diloco
