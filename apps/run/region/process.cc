#include "apps/run/region/process.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

#include "diloco/files/file_io.h"

namespace causeway::run {
namespace {

using diloco::Descriptor;

[[noreturn]] void fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

// Pointers to strings that live elsewhere, ended by a null pointer, as exec wants them.
std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (std::string& text : strings) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

std::vector<std::string> environment_with(const std::map<std::string, std::string>& additions) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    if (!additions.contains(text.substr(0, text.find('=')))) out.push_back(text);
  }
  for (const auto& [name, value] : additions) out.push_back(name + "=" + value);
  return out;
}

[[noreturn]] void give_up(int failure) {
  const int error = errno;
  [[maybe_unused]] const auto written = ::write(failure, &error, sizeof error);
  ::_exit(127);
}

// The child's side, between fork and exec. Other threads may have held locks when we forked: system
// calls only, nothing that allocates.
[[noreturn]] void become(char** arguments, char** environment, pid_t parent, int output, int log,
                         int failure, int network_namespace) {
  ::setpgid(0, 0);
  if (network_namespace >= 0 && ::setns(network_namespace, CLONE_NEWNET) != 0) {
    give_up(failure);
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // it died before the line above
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGCHLD}) ::signal(signal, SIG_DFL);
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  // Sockets that a library opened must not live on in the child. The failure pipe closes by itself
  // when exec succeeds.
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  ::execvpe(arguments[0], arguments, environment);
  give_up(failure);
}

pid_t start(const ProcessOptions& options) {
  assert(!options.arguments.empty());
  const Descriptor log = diloco::open_to_append(options.log);
  const Descriptor output =
      diloco::open_to_append(options.output.empty() ? options.log : options.output);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail(errno, "cannot create a pipe");
  Descriptor failure_out(ends[0]), failure_in(ends[1]);

  std::vector<std::string> arguments = options.arguments;
  std::vector<std::string> environment = environment_with(options.environment);
  const std::vector<char*> argument_pointers = pointers(arguments);
  const std::vector<char*> environment_pointers = pointers(environment);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) fail(errno, "cannot start a process");
  if (pid == 0) {
    become(const_cast<char**>(argument_pointers.data()),
           const_cast<char**>(environment_pointers.data()), parent, output.get(), log.get(),
           failure_in.get(), options.network_namespace);
  }
  failure_in = Descriptor();
  int error = 0;
  ssize_t got = 0;
  do {
    got = ::read(failure_out.get(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  if (got == sizeof error) {
    ::waitpid(pid, nullptr, 0);
    fail(error, "cannot run " + options.arguments[0]);
  }
  return pid;
}

}  // namespace

std::string to_string(const ExitStatus& status) {
  if (status.for_memory) return "killed by the kernel, which had no memory left for it";
  if (status.signal == 0) return fmt::format("exit code {}", status.code);
  return fmt::format("killed by signal {} ({})", status.signal, ::strsignal(status.signal));
}

class Process::Implementation {
 public:
  Implementation(const asio::any_io_executor& executor, const ProcessOptions& options)
      : pid_(start(options)), with_descendants_(options.with_descendants), ended_(executor) {
    // Not by way of glibc, which has it from 2.36 on: the package is for 2.34 as well.
    const int fd = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
    if (fd < 0) {
      const int error = errno;
      kill_and_reap();
      fail(error, "cannot watch a process");
    }
    ended_.assign(fd);
  }

  ~Implementation() {
    if (!status_) kill_and_reap();
  }

  pid_t pid() const { return pid_; }

  void send_signal(int signal) {
    if (status_) return;
    if (!with_descendants_) {
      ::kill(pid_, signal);
    } else if (signal == SIGKILL || signal == SIGSTOP || signal == SIGCONT) {
      signal_tree(pid_, signal);
    } else {
      ::kill(-pid_, signal);
    }
  }

  asio::awaitable<ExitStatus> wait() {
    while (!reap(WNOHANG)) {
      asio::error_code error;
      co_await ended_.async_wait(asio::posix::descriptor_base::wait_read,
                                 asio::redirect_error(asio::use_awaitable, error));
      if (error) throw std::system_error(error);
    }
    co_return *status_;
  }

 private:
  bool reap(int flags) {
    if (status_) return true;
    siginfo_t info{};
    const auto ended = [&](int options) {
      while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | options) != 0) {
        if (errno != EINTR) fail(errno, "cannot wait for a process");
      }
      return info.si_pid != 0;
    };
    // Before it is reaped, for then its group's number may be given to others.
    if (with_descendants_ && ended(flags | WNOWAIT)) ::kill(-pid_, SIGKILL);
    if (!ended(flags)) return false;
    status_ =
        info.si_code == CLD_EXITED ? ExitStatus{info.si_status} : ExitStatus{0, info.si_status};
    return true;
  }

  void kill_and_reap() {
    send_signal(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  pid_t pid_;
  bool with_descendants_;
  std::optional<ExitStatus> status_;
  asio::posix::stream_descriptor ended_;  // a pidfd: readable once the child has ended
};

Process::Process(asio::any_io_executor executor, const ProcessOptions& options)
    : implementation_(std::make_unique<Implementation>(std::move(executor), options)) {}
Process::~Process() = default;
pid_t Process::pid() const {
  return implementation_->pid();
}
void Process::send_signal(int signal) {
  implementation_->send_signal(signal);
}
asio::awaitable<ExitStatus> Process::wait() {
  return implementation_->wait();
}

std::vector<std::string> last_lines(const std::filesystem::path& file, std::size_t count) {
  constexpr std::streamoff kTailBytes = 64 << 10;
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  if (!stream) return {};
  const std::streamoff size = stream.tellg();
  stream.seekg(std::max<std::streamoff>(0, size - kTailBytes));
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  if (lines.size() > count)
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(count));
  return lines;
}

std::string last_words(const std::filesystem::path& file) {
  constexpr std::size_t kLines = 20;
  const auto has_word = [](const std::string& line) {
    return std::ranges::any_of(line, [](unsigned char c) { return std::isalnum(c) != 0; });
  };
  const std::vector<std::string> lines = last_lines(file, kLines);
  const auto found = std::find_if(lines.rbegin(), lines.rend(), has_word);
  return found == lines.rend() ? "" : found->substr(found->find_first_not_of(" \t"));
}

namespace {

// 0: it is gone.
pid_t parent_of(const std::filesystem::path& process) {
  std::ifstream file(process / "status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("PPid:")) return static_cast<pid_t>(std::stol(line.substr(5)));
  }
  return 0;
}

// Those that can be seen: a process without a free descriptor sees none.
std::multimap<pid_t, pid_t> children_by_parent() {
  namespace fs = std::filesystem;
  std::multimap<pid_t, pid_t> children;
  std::error_code unreadable;
  fs::directory_iterator entry("/proc", unreadable);
  for (; entry != fs::directory_iterator(); entry.increment(unreadable)) {
    const std::string name = entry->path().filename();
    if (std::isdigit(static_cast<unsigned char>(name.front())) == 0) continue;
    children.emplace(parent_of(entry->path()), static_cast<pid_t>(std::stol(name)));
  }
  return children;
}

// Those that are not in `tree` yet, which they are put into.
std::vector<pid_t> newly_found(std::set<pid_t>& tree) {
  std::vector<pid_t> found;
  const std::multimap<pid_t, pid_t> children = children_by_parent();
  std::vector<pid_t> open(tree.begin(), tree.end());
  while (!open.empty()) {
    const auto [first, last] = children.equal_range(open.back());
    open.pop_back();
    for (auto child = first; child != last; ++child) {
      open.push_back(child->second);
      if (tree.insert(child->second).second) found.push_back(child->second);
    }
  }
  return found;
}

}  // namespace

void signal_tree(pid_t root, int signal) {
  std::set<pid_t> tree{root};
  // Who is stopped starts nobody, and reaps nobody, so that no number is given to another process.
  const int first = signal == SIGCONT ? 0 : SIGSTOP;
  ::kill(root, first);
  for (std::vector<pid_t> found = newly_found(tree); !found.empty(); found = newly_found(tree)) {
    for (const pid_t process : found) ::kill(process, first);
  }
  for (const pid_t process : tree) ::kill(process, signal);
}

}  // namespace causeway::run
