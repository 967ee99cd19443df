#include "apps/run/region/signal_tree.h"

#include <cctype>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace causeway::run {
namespace {

// 0: it is gone.
pid_t parent_of(const std::filesystem::path& process) {
  std::ifstream file(process / "status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("PPid:")) return static_cast<pid_t>(std::stol(line.substr(5)));
  }
  return 0;
}

std::multimap<pid_t, pid_t> children_by_parent() {
  std::multimap<pid_t, pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (std::isdigit(static_cast<unsigned char>(name.front())) == 0) continue;
    children.emplace(parent_of(entry.path()), static_cast<pid_t>(std::stol(name)));
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
