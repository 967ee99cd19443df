// Any bytes at all as a ledger's records on disk, or any entries in records whose hashes are right.
// The ledger may refuse them with std::system_error; what it accepts it must accept again, with the
// same records and head: cutting off a torn entry must not change what is before it.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include <spdlog/spdlog.h>

#include "diloco/ledger/ledger.h"
#include "diloco/ledger/ledger_file.h"
#include "diloco/maths/digest.h"

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

// The input cut into entries: two bytes say how long the next one is.
std::string chained(std::string_view input) {
  std::string records;
  causeway::diloco::Digest hash = causeway::diloco::chain_start("fuzz");
  while (input.size() >= 2) {
    const std::size_t length =
        static_cast<std::uint8_t>(input[0]) | std::size_t{static_cast<std::uint8_t>(input[1])} << 8;
    const std::string entry(input.substr(2, length));
    hash = causeway::diloco::chain_next(hash, entry);
    const causeway::diloco::Applied own{.version = records.size(), .state = hash};
    records += causeway::diloco::ledger_bytes(entry, hash, own,
                                              [](const std::string&) { return "signature"; });
    input.remove_prefix(2 + entry.size());
  }
  return records;
}

}  // namespace

// The first byte says which of the two the rest is.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const RunDirectory run;
  const std::string_view input(reinterpret_cast<const char*>(data + 1), size - 1);
  std::ofstream(run.path / "records", std::ios::binary)
      << (data[0] % 2 == 0 ? std::string(input) : chained(input));
  try {
    std::size_t records = 0;
    causeway::diloco::Digest head{};
    {
      const Ledger ledger(run.path);
      records = ledger.raft().committed;
      head = ledger.head();
    }
    const Ledger again(run.path);
    if (again.raft().committed != records || again.head() != head) std::abort();
  } catch (const std::system_error&) {
  }
  return 0;
}
