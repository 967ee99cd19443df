// Frames over a Unix stream socket, with file descriptors: what both ends of the worker socket
// share.
//
// A frame is its length (4 bytes, little-endian), the number of descriptors that travel with it (4
// bytes), then a Protocol Buffers message of worker.proto. The descriptors ride on the frame's
// first byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diloco/files/file_io.h"

namespace causeway::diloco {

struct Frame {
  std::string bytes;
  std::vector<Descriptor> descriptors;
};

// What both ends name when they attach; it counts up with every change that an older end would
// misread.
inline constexpr std::uint32_t kWorkerProtocol = 7;

inline constexpr std::size_t kFrameBytesMax = 16U << 20;
inline constexpr std::size_t kFrameDescriptorsMax = 128;  // the kernel's limit is 253

inline constexpr std::size_t kFrameHeaderBytes = 8;

struct FrameHeader {
  std::size_t length = 0, descriptors = 0;
};
// Both throw Errc::malformed for a frame that is too large; the latter of bytes that begin with
// one.
std::string frame_header(const FrameHeader& header);
FrameHeader read_frame_header(std::string_view bytes);

// Collects frames from a socket, whatever pieces they arrive in.
class FrameReader {
 public:
  // Takes what is there without blocking. False: the other side closed. Throws Errc::malformed for
  // a frame that is too large.
  bool receive(int socket);
  std::optional<Frame> next();

 private:
  std::string buffer_;
  std::deque<Descriptor> descriptors_;
};

// Frames on their way out.
class FrameWriter {
 public:
  // Throws Errc::malformed for a frame that is too large.
  void add(Frame frame);
  // Writes what the socket takes without blocking; true when nothing is left. Throws
  // Errc::coordinator_lost if the other side is gone.
  bool flush(int socket);
  bool empty() const { return frames_.empty(); }
  // Of all frames so far. What is behind descriptors stays there.
  std::uint64_t sent_bytes() const { return sent_bytes_; }

 private:
  std::deque<Frame> frames_;  // bytes with header
  std::size_t begun_ = 0;     // bytes of the first one that are sent
  std::uint64_t sent_bytes_ = 0;
};

// Non-blocking Unix sockets by path; paths longer than a socket address can hold work too. Both
// throw std::system_error.
Descriptor listen_at(
    const std::filesystem::path& path);  // replaces a dead process's file; mode 0600
// Nothing: nobody listens there (yet).
std::optional<Descriptor> connect_to(const std::filesystem::path& path);

}  // namespace causeway::diloco
