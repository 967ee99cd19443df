// Any bytes at all as what a worker's TLS connection brings. They may only be refused with
// std::system_error; the frames that come out, blobs included, are the bytes that went in, however
// these were cut.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <system_error>

#include "diloco/worker/stream/stream_parser.h"
#include "diloco/worker/worker.pb.h"

namespace {

using namespace causeway::diloco;

std::string blob_bytes(const Descriptor& blob) {
  std::string bytes(static_cast<std::size_t>(::lseek(blob.get(), 0, SEEK_END)), '\0');
  if (::pread(blob.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    std::abort();
  }
  return bytes;
}

std::string on_the_wire(const Frame& frame) {
  std::string bytes = frame_header({frame.bytes.size(), frame.descriptors.size()}) + frame.bytes;
  for (const Descriptor& blob : frame.descriptors) {
    const std::string content = blob_bytes(blob);
    const std::uint64_t size = content.size();
    bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
    bytes += content;
  }
  return bytes;
}

}  // namespace

// The first byte says in what pieces the rest arrives.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = 1 + data[0];
  const auto stream = std::as_bytes(std::span(data + 1, size - 1));
  StreamParser parser;
  std::string out;
  try {
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      parser.feed(stream.subspan(at, std::min(piece, stream.size() - at)));
      while (const auto frame = parser.next()) {
        out += on_the_wire(*frame);
        worker_wire::WorkerMessage message;
        if (message.ParseFromString(frame->bytes)) message.ByteSizeLong();
      }
    }
  } catch (const std::system_error&) {
  }
  const bool same = out.size() <= stream.size() &&
                    std::equal(out.begin(), out.end(), reinterpret_cast<const char*>(data + 1));
  if (!same) std::abort();
  return 0;
}
