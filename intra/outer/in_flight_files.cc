#include "intra/outer/in_flight_files.h"

#include <charconv>
#include <optional>
#include <span>
#include <sstream>
#include <system_error>
#include <utility>

#include "diloco/files/error.h"
#include "diloco/files/file_io.h"
#include "intra/base/error.h"
#include "intra/outer/snapshot_file.h"

namespace causeway::intra {
namespace {

namespace fs = std::filesystem;

// Named by content, so that a state never finds another contribution than its own.
fs::path contribution_file(const fs::path& region_directory, const diloco::Digest& hash) {
  return checkpoint_directory(region_directory) /
         ("contribution-" + diloco::to_hex(hash).substr(0, 16) + ".bin");
}

std::string hex(const std::string& bytes) {
  return diloco::to_hex({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

std::optional<std::string> unhex(const std::string& text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    unsigned value = 0;
    const char* const end = text.data() + i + 2;
    const auto result = std::from_chars(text.data() + i, end, value, 16);
    if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
    bytes += static_cast<char>(value);
  }
  return bytes;
}

// `state` names it.
OwnPayload read_payload_of(const fs::path& region_directory, const fs::path& state,
                           const diloco::Digest& hash) {
  const fs::path file = contribution_file(region_directory, hash);
  const std::optional<std::string> bytes = diloco::read_file(file);
  const auto refuse = [&](const std::string& why) {
    throw std::system_error(Errc::bad_checkpoint, file.string() + " " + why + "; remove " +
                                                      state.string() +
                                                      " to start from the run's own state");
  };
  if (!bytes) refuse("is missing");
  OwnPayload payload{diloco::SealedBytes(std::as_bytes(std::span(*bytes)))};
  if (payload.hash() != hash) refuse("is not the contribution that the state names");
  return payload;
}

// Without their payloads, and whether they have one.
std::vector<std::pair<InFlight, bool>> parse_in_flight(const StateReader& reader) {
  std::vector<std::pair<InFlight, bool>> in_flight;
  std::istringstream lines(reader.get("in_flight"));
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string stored, has_payload, description, more;
    words >> stored >> has_payload >> description;
    const std::optional<std::string> bytes = unhex(description);
    const bool known = (stored == "stored" || stored == "kept") &&
                       (has_payload == "0" || has_payload == "1") && bytes && !(words >> more);
    if (!known) reader.refuse("describes a contribution that cannot be read");
    try {
      InFlight own{.contribution = diloco::parse_contribution(*bytes), .payload = {}};
      own.stored = stored == "stored";
      in_flight.emplace_back(std::move(own), has_payload == "1");
    } catch (const std::system_error& error) {
      if (error.code() != diloco::Errc::malformed) throw;
      reader.refuse(std::string("describes a contribution that cannot be read: ") + error.what());
    }
  }
  return in_flight;
}

}  // namespace

std::string describe(const std::vector<InFlight>& in_flight) {
  std::string text;
  for (const InFlight& own : in_flight) {
    text += std::string(own.stored ? "stored" : "kept") + (own.payload.empty() ? " 0 " : " 1 ") +
            hex(serialize(own.identified())) + "\n";
  }
  return text;
}

std::string region_in_flight(const StateReader& state) {
  const auto in_flight = parse_in_flight(state);
  return in_flight.empty() ? "" : in_flight.front().first.contribution.region;
}

std::vector<InFlight> read_in_flight(const fs::path& region_directory, const StateReader& reader) {
  std::vector<InFlight> in_flight;
  for (auto& [own, has_payload] : parse_in_flight(reader)) {
    if (has_payload) {
      own.payload = read_payload_of(region_directory, reader.file(), own.contribution.payload.hash);
    }
    in_flight.push_back(std::move(own));
  }
  return in_flight;
}

std::vector<fs::path> in_flight_files_of(const fs::path& region_directory,
                                         const StateReader& state) {
  std::vector<fs::path> files;
  for (const auto& [own, has_payload] : parse_in_flight(state))
    if (has_payload)
      files.push_back(contribution_file(region_directory, own.contribution.payload.hash));
  return files;
}

void write_payloads(const fs::path& region_directory, const std::vector<InFlight>& in_flight) {
  for (const InFlight& own : in_flight) {
    if (own.payload.empty()) continue;
    const fs::path file = contribution_file(region_directory, own.payload.hash());
    if (!fs::exists(file))
      diloco::replace_file(file, own.payload.bytes(), diloco::Durability::on_disk);
  }
}

}  // namespace causeway::intra
