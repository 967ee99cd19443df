// What a coordinator that left the run tells a worker that is away: a note in the region's
// directory. A worker in the middle of long steps would find nobody any more, and wait for ever.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "diloco/files/error.h"

namespace causeway::diloco {

struct LastWord {
  std::string run_id;  // empty: the coordinator did not know it
  std::string reason;
  Errc kind = Errc::left_out;  // config_mismatch, lineage or left_out
};

// All in the region's directory. The first two throw std::system_error.
void leave_last_word(const std::filesystem::path& directory, const LastWord& word);
// As soon as a coordinator has the directory: so whoever was attached knows that a note was left
// since.
void take_back_last_word(const std::filesystem::path& directory);
// None: there is none, or it cannot be read, or it is damaged.
std::optional<LastWord> last_word(const std::filesystem::path& directory);

}  // namespace causeway::diloco
