// Any bytes at all as a ledger's records on disk. The ledger may refuse them with
// std::system_error; what it accepts it must accept again, with the same records and head: cutting
// off a torn entry must not change what is before it.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include <spdlog/spdlog.h>

#include "diloco/ledger.h"

namespace {

namespace fs = std::filesystem;
using causeway::diloco::Ledger;

// One per process: several fuzzers may run side by side.
fs::path directory() {
  static const fs::path path = [] {
    spdlog::set_level(spdlog::level::off);
    fs::path made = fs::temp_directory_path() / ("ledger-fuzz-" + std::to_string(::getpid()));
    fs::create_directories(made);
    std::ofstream(made / "run") << "fuzz\n";
    std::atexit([] { fs::remove_all(directory()); });
    return made;
  }();
  return path;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::ofstream(directory() / "records", std::ios::binary)
      << std::string_view(reinterpret_cast<const char*>(data), size);
  try {
    std::size_t records = 0;
    causeway::diloco::Digest head{};
    {
      const Ledger ledger(directory());
      records = ledger.records().size();
      head = ledger.head();
    }
    const Ledger again(directory());
    if (again.records().size() != records || again.head() != head) std::abort();
  } catch (const std::system_error&) {
  }
  return 0;
}
