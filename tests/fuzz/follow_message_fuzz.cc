// Any bytes at all as what a follower asks, as what it is told, and as the file of signed heads
// that it keeps.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "diloco/files/checked_file.h"
#include "diloco/follow/follow_messages.h"
#include "tests/fuzz/round_trip.h"

namespace {

namespace fs = std::filesystem;
using namespace causeway::diloco;

// In memory, for this process alone.
struct Directory {
  Directory() : path("/dev/shm/follow-message-fuzz-" + std::to_string(::getpid())) {
    fs::create_directories(path);
  }
  ~Directory() { fs::remove_all(path); }
  fs::path path;
};

std::vector<SignedHead> heads_of(const fs::path& directory, const std::string& file) {
  std::ofstream(directory / "heads", std::ios::binary) << file;
  return read_heads(directory);
}

void try_heads(const std::string& bytes) {
  static const Directory directory;
  heads_of(directory.path, bytes);
  const std::string once = heads_bytes(heads_of(directory.path, with_checksum(bytes)));
  if (heads_bytes(heads_of(directory.path, once)) != once) std::abort();
}

}  // namespace

// The first byte says what the rest is taken for.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 3) {
    case 0:
      try_round_trip(bytes, parse_question);
      break;
    case 1:
      try_round_trip(bytes, parse_answer);
      break;
    default:
      try_heads(bytes);
      break;
  }
  return 0;
}
