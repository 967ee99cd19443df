// Notices that credential files were replaced.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "inter/base/retry.h"
#include "inter/tls/pki.h"

namespace causeway::inter {

class CredentialWatch {
 public:
  // `owner`: who says so in the log. `retry`: how soon the same files are tried again.
  CredentialWatch(std::string owner, Credentials files,
                  std::chrono::milliseconds retry = std::chrono::seconds{1});

  // After a change `load` is called, which throws std::system_error if it cannot use what is there.
  // True if it could. A file that is being replaced may be caught half-way: then the old
  // credentials stay in use, and a later call tries again: when the files have changed once more,
  // or after `retry`. Calls that strangers cause must cost nothing.
  bool reload(const std::function<void()>& load);

 private:
  struct Stamp {
    std::int64_t seconds = 0, nanoseconds = 0, size_bytes = 0;
    ::ino_t inode = 0;  // two renewals within one tick of the file system's clock
    bool operator==(const Stamp&) const = default;
  };
  using Stamps = std::array<Stamp, 4>;

  Stamps look() const;
  static Stamp stamp(const std::filesystem::path& file);

  std::string owner_;
  Credentials files_;
  std::chrono::milliseconds retry_;
  Stamps seen_;
  std::optional<Stamps> failed_;  // of the last attempt, if it failed
  std::chrono::steady_clock::time_point failed_at_;
  LogThrottle failures_;
};

}  // namespace causeway::inter
