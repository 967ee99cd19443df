// A disk that takes no file of more than a few bytes, for this whole process, until it goes away.
#pragma once

#include <sys/resource.h>

#include <csignal>

namespace causeway::intra {

class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes_max) {
    std::signal(SIGXFSZ, SIG_IGN);  // so that writes fail with EFBIG
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes_max, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;
  ~FullDisk() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace causeway::intra
