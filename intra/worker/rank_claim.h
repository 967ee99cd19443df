// One process at a time is a rank of a region. Two would take its place from each other without
// end, and each would write over what the other saved.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "diloco/files/file_io.h"

namespace causeway::intra {

// A process's hold on a rank; ends with the last copy.
using RankClaim = std::shared_ptr<const diloco::Descriptor>;

// Holds directory/worker-N.lock for this process, and not for those that it forks, as loaders of
// data do. Waits for another process that has it, which may be ending; `waiting` is called
// meanwhile, and what it throws ends the wait. Null where the disk takes no file now or knows no
// locks: training is not held up for that. Throws std::errc::device_or_resource_busy if the other
// one does not end. Any thread.
RankClaim claim_rank(const std::filesystem::path& directory, std::uint32_t rank,
                     const std::function<void(const std::string& what)>& waiting,
                     std::chrono::milliseconds at_most = std::chrono::seconds{60});

// What a process that cannot have it tells its user.
std::string rank_is_taken(const std::filesystem::path& directory);

}  // namespace causeway::intra
