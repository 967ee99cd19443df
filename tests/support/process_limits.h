// Limits on this whole process. Each ends with its object.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>

namespace causeway::test {

class ProcessLimit {
 public:
  ProcessLimit(const ProcessLimit&) = delete;
  ProcessLimit& operator=(const ProcessLimit&) = delete;

 protected:
  ProcessLimit(int resource, rlim_t most) : resource_(resource) {
    ::getrlimit(resource_, &before_);
    const rlimit limit{most, before_.rlim_max};
    ::setrlimit(resource_, &limit);
  }
  ~ProcessLimit() { ::setrlimit(resource_, &before_); }

 private:
  int resource_;
  rlimit before_{};
};

// A disk that takes no file of more than a few bytes.
class FullDisk : ProcessLimit {
 public:
  explicit FullDisk(rlim_t bytes_max) : ProcessLimit(RLIMIT_FSIZE, failing_beyond(bytes_max)) {}

 private:
  // With EFBIG, not with a signal that ends the process.
  static rlim_t failing_beyond(rlim_t bytes_max) {
    std::signal(SIGXFSZ, SIG_IGN);
    return bytes_max;
  }
};

// No file can be opened beside those that are open.
class NoMoreFiles : ProcessLimit {
 public:
  NoMoreFiles() : ProcessLimit(RLIMIT_NOFILE, next_descriptor()) {}

 private:
  static rlim_t next_descriptor() {
    const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::close(next);
    return static_cast<rlim_t>(next);
  }
};

}  // namespace causeway::test
