// What `causeway doctor` looks at, and what it has to say about it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "apps/run/config/config.h"
#include "apps/run/doctor/neighbours.h"
#include "intra/base/host_memory.h"
#include "intra/base/usable_cores.h"

namespace causeway::run {

// Of one thing.
struct Finding {
  enum class Grade { ok, warn, fail };
  Grade grade = Grade::ok;
  std::string subject;      // "disk", "link to us"
  std::string text;         // what was seen, with figures
  std::string advice = {};  // what to do; none if all is well
};

using Findings = std::vector<Finding>;

inline Finding ok(std::string subject, std::string text) {
  return {Finding::Grade::ok, std::move(subject), std::move(text)};
}
inline Finding warn(std::string subject, std::string text, std::string advice) {
  return {Finding::Grade::warn, std::move(subject), std::move(text), std::move(advice)};
}
inline Finding fail(std::string subject, std::string text, std::string advice) {
  return {Finding::Grade::fail, std::move(subject), std::move(text), std::move(advice)};
}

// Whether a region's certificate will be believed, today and in some weeks.

Findings check_credentials(const std::filesystem::path& certificates, const std::string& region);

// Whether a region's directory is on a disk that has the room, and takes what is written in time.

struct DiskFigures {
  std::uint64_t free_bytes = 0;
  std::uint64_t free_files = ~std::uint64_t{0};  // that may still be made
  double sync_median_s = 0, sync_worst_s = 0;    // until 64 kB are on disk
};
// Creates the directory. Throws std::system_error if it cannot be written to.
DiskFigures look_at_disk(const std::filesystem::path& directory);

Findings judge_disk(const DiskFigures& disk, const Config& config,
                    const std::filesystem::path& directory);

// Whether this host can do what a region asks of it: cores, memory, limits of a process.

// What the kernel and the environment say.
struct HostFigures {
  intra::UsableCores cores = {};
  unsigned host_cores = 1;   // whoever may use them
  double busy_cores = 0;     // of these, by whatever ran for a second
  std::string busiest = {};  // the program that had most of it; empty: none stands out
  intra::HostMemory memory = {};
  std::uint64_t open_files_max = 0;  // of a process
  std::uint64_t file_bytes_max = 0;  // of a file that a process writes
  // Of a process, mapped files and libraries included.
  std::uint64_t address_bytes_max = ~std::uint64_t{0};
  bool avx2 = false, bf16 = false, amx = false;
  std::map<std::string, std::string> openmp = {};  // its variables, as they are set
};
// Takes a second.
HostFigures look_at_host();

Findings judge_host(const HostFigures& host, const Config& config, const std::string& region);

// Whether what trains a region is here: its data, its GPU, or the packages of a PyTorch program.

struct TrainerFigures {
  Findings findings;
  SharedData data;
  std::map<std::string, std::string> packages;  // of Python, with their versions
};

struct TrainerLook {
  std::string region;
  std::filesystem::path directory;  // the region's, where digests of data are kept
  std::string python;               // the interpreter of a program of the user's
  bool whole_data = false;          // read all of it, however much it is
};
// What its settings are known to cost.
Findings judge_settings(const Config& config);

TrainerFigures look_at_trainer(const Config& config, const TrainerLook& look);

// What a visit to the other regions means, and what to do about it.

struct OwnSide {
  Card card;
  inter::Endpoint advertise;              // no host: nobody dials us
  std::uint64_t round_payload_bytes = 0;  // of a region in a round, at most; 0: not known
  double election_timeout_s = 0;          // 0: not known
};

Findings judge_visit(const Visit& visit, const OwnSide& own);

}  // namespace causeway::run
