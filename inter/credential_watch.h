// Notices that credential files were replaced. Internal to inter.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "inter/pki.h"

namespace causeway::inter {

class CredentialWatch {
 public:
  explicit CredentialWatch(Credentials files) : files_(std::move(files)), seen_(look()) {}

  // True once after each change. A file that is being replaced may be caught half-way: a caller
  // that fails to read asks again().
  bool changed() {
    const Stamps now = look();
    const bool different = now != seen_;
    seen_ = now;
    return different;
  }
  void again() { seen_ = {}; }

 private:
  using Stamp = std::pair<std::filesystem::file_time_type, std::uintmax_t>;
  using Stamps = std::array<Stamp, 4>;

  Stamps look() const {
    return {stamp(files_.ca_certificate), stamp(files_.certificate), stamp(files_.key),
            stamp(files_.revocations)};
  }
  static Stamp stamp(const std::filesystem::path& file) {
    std::error_code absent;
    const auto time = std::filesystem::last_write_time(file, absent);
    return {time, std::filesystem::file_size(file, absent)};
  }

  Credentials files_;
  Stamps seen_;
};

}  // namespace causeway::inter
