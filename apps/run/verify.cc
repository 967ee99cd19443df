#include "apps/run/verify.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>

#include "apps/run/region_files.h"
#include "diloco/error.h"
#include "diloco/ledger_file.h"
#include "inter/pki.h"
#include "inter/signature.h"
#include "intra/checkpoint.h"
#include "intra/state_file.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSlice = 4096;  // elements of one leaf of the state digest

struct Region {
  fs::path directory;
  std::string name;
  std::string run_id;
  std::vector<diloco::LedgerEntry> entries;
  std::map<std::uint64_t, std::string> states;  // by version, as the region itself reported them
};

std::string read_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

Region open_region(const fs::path& directory) {
  const fs::path ledger = directory / "ledger";
  if (!fs::exists(ledger / "records")) {
    throw std::system_error(make_error_code(diloco::Errc::lineage),
                            directory.string() +
                                " has no ledger/records: name a region's directory, " +
                                "such as runs/NAME/regions/REGION");
  }
  Region region{.directory = directory,
                .name = {},
                .run_id = read_line(ledger / "run"),
                .entries = {},
                .states = {}};
  region.entries = diloco::read_ledger(ledger / "records", region.run_id);
  for (const Event& event : read_events(directory / "events.jsonl")) {
    region.name = event.region;
    if (event.event == "round") region.states[event.round + 1] = event.state;
  }
  if (region.name.empty()) region.name = fs::absolute(directory).lexically_normal().filename();
  return region;
}

const diloco::CommitRecord* record_in(const diloco::LedgerEntry& entry) {
  return std::get_if<diloco::CommitRecord>(&entry.entry.body);
}

std::string describe(const diloco::LedgerEntry& entry, std::size_t index) {
  const diloco::CommitRecord* record = record_in(entry);
  std::string text = "entry " + std::to_string(index + 1);
  if (record == nullptr) return text + " (no round)";
  text += " (round " + std::to_string(record->round) + ":";
  for (const auto& participant : record->participants) text += " " + participant.region;
  return text + ")";
}

class Verifier {
 public:
  Verifier(Region a, Region b) : a_(std::move(a)), b_(std::move(b)) {}

  Verification run(const fs::path& certificates) {
    if (a_.run_id != b_.run_id) {
      differ("different runs: " + a_.run_id + " in " + a_.name + ", " + b_.run_id + " in " +
             b_.name);
      return std::move(result_);
    }
    for (const Region* region : {&a_, &b_}) {
      if (!certificates.empty()) check_signatures(*region, certificates);
      check_states(*region);
    }
    compare_ledgers();
    compare_snapshots();
    return std::move(result_);
  }

 private:
  void say(const std::string& line) { result_.lines.push_back(line); }
  void differ(const std::string& line) {
    result_.same = false;
    say(line);
  }

  void check_signatures(const Region& region, const fs::path& certificates) {
    const inter::VerifyingKey key(inter::credentials_in(certificates, region.name).certificate);
    std::size_t valid = 0;
    for (std::size_t i = 0; i < region.entries.size(); ++i) {
      const diloco::LedgerEntry& entry = region.entries[i];
      const std::string hash(reinterpret_cast<const char*>(entry.hash.data()), entry.hash.size());
      if (key.verify(hash, entry.signature)) {
        ++valid;
      } else {
        return differ(region.name + ": " + describe(entry, i) +
                      " is not signed by its certificate");
      }
    }
    say(region.name + ": " + std::to_string(valid) + " entries, all signed by its certificate");
  }

  // A record names the agreed state that its round starts from.
  void check_states(const Region& region) {
    std::size_t compared = 0;
    for (const diloco::LedgerEntry& entry : region.entries) {
      const diloco::CommitRecord* record = record_in(entry);
      if (record == nullptr) continue;
      const auto own = region.states.find(record->round);
      if (own == region.states.end()) continue;
      ++compared;
      if (own->second == diloco::to_hex(record->state)) continue;
      return differ(region.name + ": its state of version " + std::to_string(record->round) + " (" +
                    own->second.substr(0, 16) + ") is not the agreed one (" +
                    diloco::to_hex(record->state).substr(0, 16) + "): round " +
                    std::to_string(record->round - 1) + " was not applied as the others did");
    }
    say(region.name + ": " + std::to_string(compared) + " states as agreed");
  }

  void compare_ledgers() {
    const std::size_t common = std::min(a_.entries.size(), b_.entries.size());
    for (std::size_t i = 0; i < common; ++i) {
      if (a_.entries[i].hash == b_.entries[i].hash) continue;
      return differ("the ledgers differ from " + describe(a_.entries[i], i) + " in " + a_.name +
                    " and " + describe(b_.entries[i], i) + " in " + b_.name + " on");
    }
    const auto rounds =
        std::count_if(a_.entries.begin(), a_.entries.begin() + static_cast<std::ptrdiff_t>(common),
                      [](const diloco::LedgerEntry& entry) { return record_in(entry) != nullptr; });
    say("the same history in " + std::to_string(common) + " entries, " + std::to_string(rounds) +
        " rounds of them");
    const std::size_t more = std::max(a_.entries.size(), b_.entries.size()) - common;
    if (more > 0) {
      say((a_.entries.size() > common ? a_.name : b_.name) + " knows " + std::to_string(more) +
          " more entries");
    }
  }

  void compare_snapshots() {
    const fs::path file_a = intra::snapshot_file(a_.directory);
    const fs::path file_b = intra::snapshot_file(b_.directory);
    if (!fs::exists(file_a) || !fs::exists(file_b)) return say("no snapshots to compare");
    const intra::SafetensorsReader reader_a(file_a), reader_b(file_b);
    if (reader_a.metadata().at("version") != reader_b.metadata().at("version")) {
      return say("the newest snapshots are of different versions: their numbers are not compared");
    }
    for (const std::string& name : reader_a.names()) {
      const std::optional<std::size_t> slice = first_difference(reader_a, reader_b, name);
      if (slice) {
        return differ("the snapshots of version " + reader_a.metadata().at("version") +
                      " differ first in " + name + ", elements " + std::to_string(*slice * kSlice) +
                      " to " + std::to_string((*slice + 1) * kSlice - 1));
      }
    }
    say("the snapshots of version " + reader_a.metadata().at("version") + " are equal bit for bit");
  }

  static std::optional<std::size_t> first_difference(const intra::SafetensorsReader& a,
                                                     const intra::SafetensorsReader& b,
                                                     const std::string& name) {
    std::size_t count = 1;
    for (const std::int64_t extent : a.shape(name)) count *= static_cast<std::size_t>(extent);
    if (a.shape(name) != b.shape(name)) return 0;
    std::vector<float> values_a(count), values_b(count);
    a.read(name, values_a);
    b.read(name, values_b);
    for (std::size_t begin = 0; begin < count; begin += kSlice) {
      const std::size_t size = std::min(kSlice, count - begin) * sizeof(float);
      if (std::memcmp(&values_a[begin], &values_b[begin], size) != 0) return begin / kSlice;
    }
    return std::nullopt;
  }

  Region a_, b_;
  Verification result_;
};

}  // namespace

Verification verify(const fs::path& a, const fs::path& b, const fs::path& certificates) {
  return Verifier(open_region(a), open_region(b)).run(certificates);
}

}  // namespace causeway::run
