#include "apps/run/region/owner_advice.h"

#include <pwd.h>
#include <sys/stat.h>

#include <array>

#include <fmt/format.h>

namespace causeway::run {
namespace {

// "0 (root)"; a container may have no names.
std::string user_text(uid_t user) {
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> room{};
  ::getpwuid_r(user, &entry, room.data(), room.size(), &found);
  return fmt::format("{}{}", user, found == nullptr ? "" : fmt::format(" ({})", found->pw_name));
}

}  // namespace

std::string owner_advice(const std::filesystem::path& path, uid_t user) {
  std::filesystem::path place = path;
  struct stat seen {};
  while (::stat(place.empty() ? "." : place.c_str(), &seen) != 0) {
    if (place.empty() || place == place.parent_path()) return "";
    place = place.parent_path();
  }
  if (seen.st_uid == user) return "";
  return fmt::format(
      "; {} belongs to user {}, and this process is user {}: start as that user, or, if "
      "nothing but runs is in it, `chown -R` it",
      place.empty() ? "." : place.string(), user_text(seen.st_uid), user_text(user));
}

}  // namespace causeway::run
