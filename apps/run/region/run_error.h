// A run that failed, or that left files which cannot be used.
#pragma once

#include <stdexcept>

namespace causeway::run {

// what() says which one, and why. Exit code 1.
class RunError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace causeway::run
