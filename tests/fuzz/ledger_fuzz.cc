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

// A run's directory for this process alone: several fuzzers may run side by side.
struct RunDirectory {
  RunDirectory() : path(fs::temp_directory_path() / ("ledger-fuzz-" + std::to_string(::getpid()))) {
    spdlog::set_level(spdlog::level::off);
    fs::create_directories(path);
    std::ofstream(path / "run") << "fuzz\n";
    std::ofstream(path / "incarnation") << "fuzz\n";
  }
  ~RunDirectory() { fs::remove_all(path); }
  fs::path path;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const RunDirectory run;
  std::ofstream(run.path / "records", std::ios::binary)
      << std::string_view(reinterpret_cast<const char*>(data), size);
  try {
    std::size_t records = 0;
    causeway::diloco::Digest head{};
    {
      const Ledger ledger(run.path);
      records = ledger.raft().log.size();
      head = ledger.head();
    }
    const Ledger again(run.path);
    if (again.raft().log.size() != records || again.head() != head) std::abort();
  } catch (const std::system_error&) {
  }
  return 0;
}
