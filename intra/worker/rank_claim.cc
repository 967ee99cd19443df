#include "intra/worker/rank_claim.h"

#include <poll.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "diloco/files/error.h"

namespace causeway::intra {
namespace {

constexpr std::chrono::milliseconds kLookAgain{200};

// Of this process. The lock would not keep it from itself, and closing one descriptor of the file
// would end the lock for all. `holder`: which other process has it, if one has.
RankClaim own_claim(const std::filesystem::path& file, std::string& holder) {
  static std::mutex mutex;
  static std::map<std::filesystem::path, std::weak_ptr<const diloco::Descriptor>> claims;
  const std::lock_guard lock(mutex);
  std::weak_ptr<const diloco::Descriptor>& claim = claims[file];
  if (RankClaim held = claim.lock()) return held;
  auto taken = diloco::lock_file(file, diloco::Held::by_this_process);
  RankClaim held =
      taken ? std::make_shared<const diloco::Descriptor>(std::move(*taken)) : RankClaim();
  claim = held;
  if (!held) holder = diloco::lock_holder(file);
  return held;
}

// What must not keep a program from training.
bool is_no_matter(const std::system_error& error) {
  const int code = error.code().value();
  const bool no_locks = code == ENOLCK || code == ENOSYS || code == EOPNOTSUPP || code == EINVAL;
  return diloco::is_storage_failure(error) ||
         (error.code().category() == std::generic_category() && no_locks);
}

}  // namespace

std::string rank_is_taken(const std::filesystem::path& directory) {
  return fmt::format(
      "a worker of this rank runs in {} already; stop it before another takes its place",
      directory.string());
}

RankClaim claim_rank(const std::filesystem::path& directory, std::uint32_t rank,
                     const std::function<void(const std::string&)>& waiting,
                     std::chrono::milliseconds at_most) try {
  diloco::create_private_directories(directory);
  const auto file = std::filesystem::canonical(directory) / fmt::format("worker-{}.lock", rank);
  const auto until = std::chrono::steady_clock::now() + at_most;
  for (bool told = false;;) {
    std::string holder;
    if (RankClaim claim = own_claim(file, holder)) return claim;
    const std::string taken = rank_is_taken(directory) + holder;
    if (!std::exchange(told, true)) spdlog::warn("rank {}: {}. Waiting for it to end", rank, taken);
    if (std::chrono::steady_clock::now() >= until) {
      throw std::system_error(std::make_error_code(std::errc::device_or_resource_busy),
                              fmt::format("rank {}: {}", rank, taken));
    }
    waiting(fmt::format("another worker of rank {} to end", rank));
    ::poll(nullptr, 0, static_cast<int>(kLookAgain.count()));
  }
} catch (const std::system_error& error) {
  if (!is_no_matter(error)) throw;
  spdlog::warn("another worker of rank {} would not be noticed: {}", rank, error.what());
  return {};
}

}  // namespace causeway::intra
