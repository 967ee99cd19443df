#include "apps/run/region/output_file.h"

#include <system_error>

#include "apps/run/config/config.h"
#include "inter/base/atomic_file.h"
#include "inter/base/file.h"

namespace causeway::run {

namespace fs = std::filesystem;

void check_place_of_file(const std::string& flag, const fs::path& file) {
  std::error_code ignored;
  const std::string named = flag + " " + file.string();
  if (!file.has_filename() || fs::is_directory(file, ignored))
    throw ConfigError(named + " is a directory: name a file, such as one in it");
  const fs::path parent = file.parent_path();
  if (!parent.empty() && !fs::is_directory(parent, ignored))
    throw ConfigError(named + ": there is no directory " + parent.string() +
                      ": make it, or name a file elsewhere");
}

void check_output_file(const std::string& flag, const fs::path& file) {
  check_place_of_file(flag, file);
  std::error_code ignored;
  if (fs::exists(file, ignored) && !fs::is_regular_file(file, ignored))
    throw ConfigError(flag + " " + file.string() +
                      " is no regular file, and would be replaced by one: name another");
}

void make_output_directory(const std::string& flag, const fs::path& directory) {
  try {
    fs::create_directories(directory);
    const inter::AtomicFile trial(directory / "trial");  // gone again, as nobody commits it
  } catch (const std::system_error& error) {
    if (inter::is_out_of_room(error)) throw;
    const std::string dangling = inter::dangling_link_in(directory);
    throw ConfigError(flag + " " + directory.string() + ": cannot be written to (" +
                      (dangling.empty() ? error.code().message() : dangling) +
                      "); name another directory with " + flag);
  }
}

}  // namespace causeway::run
