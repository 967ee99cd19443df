// Child processes: each in its own process group, its output in a log file, and never outliving
// this process.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

namespace causeway::run {

struct ProcessOptions {
  std::vector<std::string> arguments;  // [0] is the program: a path, or a name looked up in PATH
  std::map<std::string, std::string> environment;  // added to ours
  std::filesystem::path log;                       // stdout and stderr are appended here
  std::filesystem::path output;                    // if not empty, stdout is appended here instead
  int network_namespace = -1;                      // where it runs, for setns(); -1: where we are
  // Signals are meant for all that it starts too, and what is left of that is killed when it ends.
  bool with_descendants = false;
};

struct ExitStatus {
  int code = 0;             // as passed to exit(), when signal is 0
  int signal = 0;           // that ended it
  bool for_memory = false;  // the kernel's, which had none left
  bool ok() const { return code == 0 && signal == 0; }
};
// "exit code 3", "killed by signal 9 (Killed)"
std::string to_string(const ExitStatus& status);

// One running child. The kernel kills it when the thread that started it ends, however that
// happens: start children from a thread that lives as long as they should.
class Process {
 public:
  // Starts it. Throws std::system_error naming the program if it cannot be run, or the log if it
  // cannot be opened.
  Process(asio::any_io_executor executor, const ProcessOptions& options);
  ~Process();  // kills and reaps it if it still runs

  pid_t pid() const;
  // To the child; with descendants, SIGKILL, SIGSTOP and SIGCONT to each of them, and any other
  // signal to its process group, as a terminal does. Nothing if it has ended.
  void send_signal(int signal);
  // Completes when it has ended. One waiter at a time.
  asio::awaitable<ExitStatus> wait();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

// The last lines of a file, for showing what a child said before it ended; empty if there is none.
std::vector<std::string> last_lines(const std::filesystem::path& file, std::size_t count);

// The last one with a letter or digit: torchrun ends with a ruled line. Empty if there is none near
// the end.
std::string last_words(const std::filesystem::path& file);

// A process and all that it started, directly or not, whatever groups or sessions these are in now.

// SIGKILL, SIGSTOP or SIGCONT to `root`, which is a child of ours that was not reaped, and to all
// its descendants. None escapes by starting another meanwhile; one whose parent has ended is not
// found.
void signal_tree(pid_t root, int signal);

}  // namespace causeway::run
