// Own contributions whose outcome is open, as a saved state has them: a line each in its metadata,
// and their payloads in files beside it, checkpoints/contribution-HASH.bin. Internal to intra.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "intra/outer/outer_state.h"
#include "intra/outer/state_reader.h"

namespace causeway::intra {

// For the metadata.
std::string describe(const std::vector<InFlight>& in_flight);
// Whose they are; empty: there are none. Throws Errc::bad_checkpoint if the state cannot be read.
std::string region_in_flight(const StateReader& state);
// Those of a state, with their payloads. Throws Errc::bad_checkpoint if one is missing or damaged.
std::vector<InFlight> read_in_flight(const std::filesystem::path& region_directory,
                                     const StateReader& state);
// The files with their payloads. Throws Errc::bad_checkpoint if the state cannot be read.
std::vector<std::filesystem::path> in_flight_files_of(const std::filesystem::path& region_directory,
                                                      const StateReader& state);
// Before the state: it must never be without what it names.
void write_payloads(const std::filesystem::path& region_directory,
                    const std::vector<InFlight>& in_flight);

}  // namespace causeway::intra
