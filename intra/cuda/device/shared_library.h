// CUDA's libraries, opened when a GPU is used and not before: linked, they are hundreds of
// megabytes to load whenever a program starts, GPU or not.
#pragma once

#include <memory>
#include <string>

namespace causeway::intra::cuda {

class SharedLibrary {
 public:
  // As dlopen() finds it: "libcublasLt.so.13". Throws std::system_error saying what to install.
  explicit SharedLibrary(const std::string& name);

  // The type is that of the header's declaration, the address the library's.
  template <typename Function>
  void find(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(address(name));
  }

 private:
  void* address(const char* name) const;

  struct Close {
    void operator()(void* handle) const;
  };
  std::string name_;
  std::unique_ptr<void, Close> handle_;
};

}  // namespace causeway::intra::cuda
