#include "apps/run/watch/seen_region.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "apps/run/config/config.h"
#include "diloco/files/file_io.h"
#include "inter/mesh/observer.h"

namespace causeway::run {
namespace {

std::string status_file(const std::filesystem::path& directory) {
  if (auto text = diloco::read_file(directory / "status.json")) return *std::move(text);
  throw ConfigError(directory.string() +
                    ": no status.json; name the directory of a region that was started");
}

std::string utc_time_of(const std::filesystem::path& file) {
  struct stat written {};
  std::tm utc{};
  std::array<char, 32> text{};
  if (::stat(file.c_str(), &written) != 0 || ::gmtime_r(&written.st_mtime, &utc) == nullptr)
    return "an unknown time";
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

// Whose key is in the directory, if there is one alone.
std::string only_name(const std::filesystem::path& certificates) {
  std::vector<std::string> names;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(certificates, missing)) {
    if (entry.path().extension() == ".key" && entry.path().stem() != "ca")
      names.push_back(entry.path().stem());
  }
  if (names.size() == 1) return names.front();
  std::string known;
  for (const std::string& name : names) known += " " + name;
  throw ConfigError(
      names.empty()
          ? "--certificates " + certificates.string() +
                ": no certificate and key there; a region's or an observer's is needed "
                "(`causeway certs add-observer NAME`), and ca.crt"
          : "--as NAME is needed: --certificates " + certificates.string() + " has" + known);
}

SeenRegion seen(const std::string& where, std::string text) {
  SeenRegion region;
  region.text = std::move(text);
  const auto status = diloco::parse_region_status(region.text);
  if (!status) {
    throw ConfigError(where +
                      ": the answer is not a status; name a running coordinator of this program "
                      "version, or its directory");
  }
  region.name = status->region.empty() ? where : status->region;
  region.finished = status->finished;
  region.runs = true;
  if (status->falls_behind) region.rounds_behind = status->round - status->version;
  return region;
}

// A coordinator shows four times a second that it works (status_files.h).
constexpr std::chrono::seconds kSilentMax{10};

// Of a directory, which is on this host: its files' times are by the clock that we read.
void look_for_life(SeenRegion& region, const std::filesystem::path& status,
                   const std::filesystem::path& lock) {
  std::error_code missing, also_missing;
  const auto written = std::filesystem::last_write_time(status, missing);
  const auto held_since = std::filesystem::last_write_time(lock, also_missing);
  if (!region.runs || missing || also_missing) return;
  region.starts = held_since > written;
  const auto silent = std::filesystem::file_time_type::clock::now() - written;
  region.hangs = !region.starts && !region.finished && silent > kSilentMax;
}

// What they show may be some seconds apart.
constexpr double kApartS = 10;

}  // namespace

RegionStatus status_of(const SeenRegion& region) {
  return diloco::parse_region_status(region.text).value_or(RegionStatus{});
}

void compare_rounds(std::vector<SeenRegion>& regions) {
  struct Newest {
    std::uint64_t round = 0;
    double applied_unix_s = 0;  // by whoever has that round
  };
  std::map<std::string, Newest> runs;
  for (const SeenRegion& region : regions) {
    const RegionStatus status = status_of(region);
    Newest& newest = runs[status.run_id];
    if (region.runs && status.round > newest.round)
      newest = {status.round, status.applied_unix_s.value_or(0)};
  }
  for (SeenRegion& region : regions) {
    const RegionStatus status = status_of(region);
    const bool says = status.rounds_kept > 0;
    if (!region.runs || region.finished || !says) continue;
    const Newest& newest = runs[status.run_id];
    const bool old = status.applied_unix_s.value_or(0) + kApartS < newest.applied_unix_s;
    if (old && status.version + status.rounds_kept < newest.round)
      region.rounds_behind = newest.round - status.version;
  }
}

void note_who_ended(std::vector<SeenRegion>& regions) {
  const bool over = std::ranges::any_of(regions, &SeenRegion::finished);
  for (SeenRegion& region : regions) region.run_is_over = over && !region.problem.empty();
}

void note_what_others_say(std::vector<SeenRegion>& regions) {
  std::set<std::string> members;  // of those that were not seen
  for (const SeenRegion& seen : regions) {
    if (!seen.works()) continue;
    const RegionStatus status = status_of(seen);
    for (SeenRegion& other : regions) {
      if (other.problem.empty()) continue;
      const auto link = status.links.find(other.name);
      if (link == status.links.end()) {
        other.removed = other.removed || status.removed_links.contains(other.name);
        continue;
      }
      members.insert(other.name);
      if (link->second.up || !link->second.via.empty()) other.linked_to.push_back(seen.name);
    }
  }
  // Whoever says so alone may be behind, or lie.
  for (SeenRegion& region : regions)
    region.removed = region.removed && !members.contains(region.name);
}

namespace {

// The regions of one run.
struct RunSeen {
  std::uint64_t rounds = 0;           // when it was over
  std::vector<std::string> finished;  // regions
  std::size_t unfinished = 0;
};

std::map<std::string, RunSeen> runs_of(const std::vector<SeenRegion>& regions) {
  std::map<std::string, RunSeen> runs;
  for (const SeenRegion& region : regions) {
    if (region.text.empty()) continue;
    const RegionStatus status = status_of(region);
    RunSeen& run = runs[status.run_id];
    if (!region.finished) {
      ++run.unfinished;
      continue;
    }
    run.finished.push_back(region.name);
    run.rounds = std::max(run.rounds, status.version);
  }
  return runs;
}

// Whether it waits for something that its records or payloads are to bring.
bool lacks_rounds(const SeenRegion& region, const RegionStatus& status, std::uint64_t rounds) {
  if (region.finished || status.version >= rounds) return false;
  const bool waits = !status.waiting.empty() && !status.lacks_workers();
  return !region.runs || status.round < rounds || waits;
}

// Another one than this that knows all rounds, or may, as nobody can say what it does.
bool somebody_tells(const std::vector<SeenRegion>& regions, const SeenRegion& whom,
                    const std::string& run_id, std::uint64_t rounds) {
  return std::ranges::any_of(regions, [&](const SeenRegion& region) {
    if (&region == &whom) return false;
    if (region.text.empty()) return !region.run_is_over;
    const RegionStatus status = status_of(region);
    return region.runs && !region.hangs && status.run_id == run_id && status.round >= rounds;
  });
}

// As many as make most of the members with those that have not finished.
std::vector<std::string> enough_of(const RunSeen& run, const RegionStatus& status) {
  const std::size_t most = (status.links.size() + 1) / 2 + 1;
  const std::size_t lacking = most > run.unfinished ? most - run.unfinished : 1;
  std::vector<std::string> names = run.finished;
  if (names.size() > lacking) names.resize(lacking);
  return names;
}

}  // namespace

void note_missed_ends(std::vector<SeenRegion>& regions) {
  const std::map<std::string, RunSeen> runs = runs_of(regions);
  for (SeenRegion& region : regions) {
    const RegionStatus status = status_of(region);
    const auto run = runs.find(status.run_id);
    if (run == runs.end() || run->second.finished.empty() || region.text.empty()) continue;
    const std::uint64_t rounds = run->second.rounds;
    if (!lacks_rounds(region, status, rounds)) continue;
    if (somebody_tells(regions, region, status.run_id, rounds)) continue;
    region.rounds_missed = rounds - status.version;
    region.to_start = enough_of(run->second, status);
  }
}

// What the file says holds only while a coordinator holds the directory.
SeenRegion look_at_directory(const std::filesystem::path& region_directory) {
  const std::filesystem::path status = region_directory / "status.json";
  const std::filesystem::path lock = region_directory / "ledger" / "lock";
  const bool runs = diloco::is_locked(lock);
  SeenRegion region = seen(region_directory.string(), status_file(region_directory));
  region.runs = runs;
  region.written_utc = utc_time_of(status);
  look_for_life(region, status, lock);
  return region;
}

SeenRegion look_at_address(const inter::Endpoint& address, const Observer& observer) {
  const std::string name = observer.as.empty() ? only_name(observer.certificates) : observer.as;
  return seen(inter::to_string(address),
              inter::observe({.address = address,
                              .credentials = inter::credentials_in(observer.certificates, name),
                              .deadline = observer.deadline}));
}

}  // namespace causeway::run
