#include "wan-sim/client/child.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

namespace causeway::wan_sim {
namespace {

constexpr std::chrono::seconds kEndPatience{10};
constexpr std::size_t kLinesKept = 100;

[[noreturn]] void fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

// Output of both kinds goes to `output`; no input. Signals are as a shell would leave them,
// whatever this process has blocked or ignores.
pid_t spawn(const std::vector<std::string>& arguments, int output) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, output, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<char*> words;
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.data()));
  words.push_back(nullptr);
  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid, words[0], &files, &attributes, words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) fail(error, "cannot run " + arguments[0]);
  return pid;
}

}  // namespace

class Child::Implementation {
 public:
  explicit Implementation(const std::vector<std::string>& arguments) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail(errno, "cannot make a pipe");
    output_ = ends[0];
    try {
      pid_ = spawn(arguments, ends[1]);
    } catch (...) {
      ::close(ends[0]);
      ::close(ends[1]);
      throw;
    }
    ::close(ends[1]);
    reader_ = std::thread([this] { read(); });
  }

  ~Implementation() {
    ::kill(pid_, SIGTERM);  // not reaped yet, so that the number is nobody else's
    {
      std::unique_lock lock(mutex_);
      if (!heard_.wait_for(lock, kEndPatience, [this] { return ended_; })) ::kill(pid_, SIGKILL);
    }
    reader_.join();
    ::close(output_);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  bool wait_for(const std::string& beginning, std::chrono::seconds patience) {
    std::unique_lock lock(mutex_);
    const auto is_it = [&](const std::string& line) { return line.starts_with(beginning); };
    const auto said = [&] { return std::ranges::any_of(lines_, is_it); };
    heard_.wait_for(lock, patience, [&] { return ended_ || said(); });
    return said();
  }

  std::string said() const {
    const std::lock_guard lock(mutex_);
    std::string text;
    for (const std::string& line : lines_) text += (text.empty() ? "" : "\n") + line;
    return text;
  }

 private:
  void read() {
    std::array<char, 4096> some{};
    std::string rest;
    while (true) {
      const ssize_t bytes = ::read(output_, some.data(), some.size());
      if (bytes < 0 && errno == EINTR) continue;
      if (bytes <= 0) break;
      rest.append(some.data(), static_cast<std::size_t>(bytes));
      for (std::size_t end = rest.find('\n'); end != std::string::npos; end = rest.find('\n')) {
        keep(rest.substr(0, end));
        rest.erase(0, end + 1);
      }
    }
    if (!rest.empty()) keep(rest);
    const std::lock_guard lock(mutex_);
    ended_ = true;
    heard_.notify_all();
  }
  void keep(std::string line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(std::move(line));
    if (lines_.size() > kLinesKept) lines_.pop_front();
    heard_.notify_all();
  }

  pid_t pid_ = -1;
  int output_ = -1;
  mutable std::mutex mutex_;
  std::condition_variable heard_;
  std::deque<std::string> lines_;  // the last ones
  bool ended_ = false;             // it says no more
  std::thread reader_;
};

Child::Child(const std::vector<std::string>& arguments)
    : implementation_(std::make_unique<Implementation>(arguments)) {}

Child::~Child() = default;

bool Child::wait_for(const std::string& beginning, std::chrono::seconds patience) {
  return implementation_->wait_for(beginning, patience);
}

std::string Child::said() const {
  return implementation_->said();
}

}  // namespace causeway::wan_sim
