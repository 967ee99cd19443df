// The settings that all regions share, as a region's directory keeps them from one start to the
// next. Regions compare their settings with each other, so none of them notices what changed in all
// of their files, or what a new version of this program chooses for the same file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace causeway::diloco {

class KeptSettings {
 public:
  // settings.txt of this directory. The log says if it is damaged; nothing is known then.
  explicit KeptSettings(const std::filesystem::path& directory);

  // Each key that has another value in `now`, with both; empty: none, or nothing is known.
  std::string changed(const std::string& now) const;
  // Of these, the keys that decide what comes of applying a record. A region that goes on from its
  // last snapshot applies records again, and gets another state if one of them changed. A key that
  // the earlier version of the program did not have is none of them.
  std::string changed_for_records(const std::string& now) const;

  void replace(const std::string& now) const;

 private:
  std::filesystem::path file_;
  std::optional<std::string> written_;  // what the file holds; none: there is none
  std::optional<std::string> before_;   // what it says
};

}  // namespace causeway::diloco
