#include "intra/data/data_files.h"

#include <glob.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "intra/base/error.h"
#include "intra/base/mapped_file.h"

namespace causeway::intra {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_files(const std::string& why) {
  throw std::system_error(Errc::bad_data, why);
}

[[noreturn]] void refuse_folder(const std::string& pattern, const fs::path& folder, int error) {
  refuse_files(fmt::format(
      "'{}' cannot be searched: {}: {}; make that folder readable, or name the files otherwise",
      pattern, folder.string(), std::generic_category().message(error)));
}

struct Unreadable {
  fs::path folder;
  int error = 0;
};
// glob(3) hands its callback nothing of ours.
thread_local std::optional<Unreadable> unreadable;

// A file system's own, which nobody but root may read and which holds no data.
bool is_lost_and_found(const fs::path& folder) {
  return folder.filename() == "lost+found";
}

// What is gone is no folder to search; all else would hide files without a word.
int note_unreadable(const char* path, int error) {
  if (error == ENOENT || error == ENOTDIR || is_lost_and_found(path)) return 0;
  unreadable = Unreadable{path, error};
  return 1;
}

std::vector<std::string> matches(const std::string& pattern);

// A plain name is not looked for by reading its folder, and glob(3) says nothing of one that it may
// not enter.
void refuse_locked(const std::string& pattern) {
  const fs::path path(pattern);
  const std::string name = path.filename(), parent = path.parent_path();
  constexpr const char* kMagic = "*?[\\";
  if (name.find_first_of(kMagic) != std::string::npos ||
      parent.find_first_of(kMagic) == std::string::npos)
    return;
  for (const std::string& folder : matches(parent)) {
    std::error_code error;
    if (is_lost_and_found(folder)) continue;
    if (!fs::exists(fs::path(folder) / name, error) && error)
      refuse_folder(pattern, folder, error.value());
  }
}

// None if there are none.
std::vector<std::string> matches(const std::string& pattern) {
  // A file whose own name has brackets or stars is meant literally.
  if (std::error_code error; fs::exists(pattern, error)) return {pattern};
  unreadable.reset();
  // Unsorted, because glob(3) would sort by the locale, and regions must agree on the order.
  glob_t found{};
  const int status = glob(pattern.c_str(), GLOB_NOSORT, note_unreadable, &found);
  std::vector<std::string> files;
  if (status == 0) files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  if (unreadable) refuse_folder(pattern, unreadable->folder, unreadable->error);
  if (status != 0 && status != GLOB_NOMATCH)
    refuse_files("'" + pattern + "' cannot be searched: there is too little memory");
  refuse_locked(pattern);
  return files;
}

// Sorted.
std::vector<std::string> named_files(const std::vector<std::string>& patterns) {
  if (patterns.empty()) refuse_files("the list of data files is empty; name at least one file");
  std::vector<std::string> files;
  for (const std::string& pattern : patterns) {
    const std::vector<std::string> found = matches(pattern);
    if (found.empty()) {
      refuse_files("'" + pattern + "' matches no file; check data.files and the current directory");
    }
    files.insert(files.end(), found.begin(), found.end());
  }
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

// Files that are taken out of a list, for one line in the log.
class TakenOut {
 public:
  void add(std::string what) {
    if (++count_ == 1) first_ = std::move(what);
  }
  void say(const std::string& consequence) const {
    if (count_ == 0) return;
    const std::string more = count_ == 1 ? "" : fmt::format(" (and {} more likewise)", count_ - 1);
    spdlog::warn("{}: {}{}", first_, consequence, more);
  }

 private:
  std::size_t count_ = 0;
  std::string first_;
};

// What cannot be examined is refused when it is opened.
void keep_each_once(std::vector<std::string>& files) {
  std::map<FileIdentity, std::string> first_names;
  TakenOut taken;
  std::erase_if(files, [&](const std::string& file) {
    const std::optional<FileIdentity> identity = identity_of(file);
    if (!identity) return false;
    const auto [known, is_new] = first_names.emplace(*identity, file);
    if (!is_new) taken.add(file + " is the same file as " + known->second);
    return !is_new;
  });
  taken.say(
      "it is read once. An earlier version read it as often as it is named, so upgrade all regions "
      "together");
}

// Patterns that match nothing are refused by whoever validates on them.
void leave_out(const std::vector<std::string>& patterns, std::vector<std::string>& files) {
  std::map<FileIdentity, std::string> held_out;
  for (const std::string& pattern : patterns) {
    for (const std::string& file : matches(pattern))
      if (const auto identity = identity_of(file)) held_out.emplace(*identity, file);
  }
  TakenOut taken;
  std::erase_if(files, [&](const std::string& file) {
    const std::optional<FileIdentity> identity = identity_of(file);
    const auto known = identity ? held_out.find(*identity) : held_out.end();
    if (known == held_out.end()) return false;
    taken.add(file + " is in data.validation_files" +
              (known->second == file ? "" : ", as " + known->second));
    return true;
  });
  if (files.empty())
    refuse_files(
        "all data files are in data.validation_files too, so that none is left to train "
        "on; name other files in data.files or there");
  taken.say("nobody trains on it. An earlier version did, so upgrade all regions together");
}

}  // namespace

std::vector<std::string> find_data_files(const DataOptions& options) {
  std::vector<std::string> files = named_files(options.files);
  keep_each_once(files);
  if (!options.validation_files.empty()) leave_out(options.validation_files, files);
  return files;
}

}  // namespace causeway::intra
