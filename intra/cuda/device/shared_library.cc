#include "intra/cuda/device/shared_library.h"

#include <dlfcn.h>

#include <system_error>

namespace causeway::intra::cuda {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  const char* reason = dlerror();
  throw std::system_error(
      std::make_error_code(std::errc::no_such_file_or_directory),
      what + " (" + (reason != nullptr ? reason : "no reason given") +
          "); install the CUDA libraries of the version that this program was built with, or add "
          "their folder to LD_LIBRARY_PATH");
}

}  // namespace

void SharedLibrary::Close::operator()(void* handle) const {
  dlclose(handle);
}

SharedLibrary::SharedLibrary(const std::string& name)
    : name_(name), handle_(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (!handle_) refuse("opening " + name);
}

void* SharedLibrary::address(const char* name) const {
  void* found = dlsym(handle_.get(), name);
  if (found == nullptr) refuse("looking for " + std::string(name) + " in " + name_);
  return found;
}

}  // namespace causeway::intra::cuda
