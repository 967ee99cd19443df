// Any bytes are either a patch that makes a file as long as its header and the weights say, or
// refused as malformed; and no file is made then. (libzstd is not instrumented here: most inputs
// end in its decoder. What gets through it is ours.)
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "apps/run/follow/weights_patch.h"
#include "diloco/files/error.h"
#include "tests/support/temporary_directory.h"

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kWeights = 64;

std::string image() {
  std::string bytes("\x10\0\0\0\0\0\0\0{\"version\":\"4\"} ", 24);
  for (std::size_t i = 0; i < kWeights; ++i) {
    bytes += static_cast<char>(37 * i);
    bytes += static_cast<char>(0x3c + i % 7 + (i % 2 != 0 ? 0x80 : 0));
  }
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace causeway;
  static const test::TemporaryDirectory directory(test::in_memory());
  static const fs::path from = directory.path() / "from", patch = directory.path() / "patch",
                        made = directory.path() / "made";
  if (!fs::exists(from)) std::ofstream(from, std::ios::binary) << image();
  std::ofstream(patch, std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  fs::remove(made);
  try {
    run::apply_weights_patch(from, patch, made);
  } catch (const std::system_error& error) {
    if (error.code() != make_error_code(diloco::Errc::malformed) || fs::exists(made)) std::abort();
    return 0;
  }
  if (fs::file_size(made) < 8 + 2 * kWeights) std::abort();
  return 0;
}
