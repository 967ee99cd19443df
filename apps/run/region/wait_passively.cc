#include "apps/run/region/wait_passively.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace causeway::run {

void wait_passively(char** arguments) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  std::error_code failure;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failure);
  if (failure || ::setenv("OMP_WAIT_POLICY", "passive", 0) != 0) return;
  ::execv(program.c_str(), arguments);
}

}  // namespace causeway::run
