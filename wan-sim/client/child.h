// A program that runs as long as an object lives, and what it says.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace causeway::wan_sim {

// One thread at a time. A thread of its own reads what the program says, to its end: otherwise the
// program would stop at a full pipe. Whoever ends without destroying this leaves a program whose
// output nobody takes, and which ends with the next thing that it says.
class Child {
 public:
  // Starts it. [0] is the program: a path, or a name looked up in PATH. Throws std::system_error
  // naming it if that cannot be run.
  explicit Child(const std::vector<std::string>& arguments);
  ~Child();  // asks it to end; after 10 s it is killed

  // False if it ends before it says a line that begins so, or if that takes longer.
  bool wait_for(const std::string& beginning, std::chrono::seconds patience);
  std::string said() const;  // its last lines

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace causeway::wan_sim
