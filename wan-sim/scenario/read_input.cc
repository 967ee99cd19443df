#include "wan-sim/scenario/read_input.h"

#include <stdexcept>
#include <system_error>

#include "inter/base/file.h"
#include "wan-sim/base/error.h"

namespace causeway::wan_sim {

std::string read_input(const std::filesystem::path& file, const std::string& what,
                       std::size_t bytes_max) {
  try {
    return inter::read_regular_file(file, bytes_max);
  } catch (const std::runtime_error& error) {
    throw std::system_error(Errc::bad_scenario,
                            std::string(error.what()) + "; give the path of " + what);
  }
}

}  // namespace causeway::wan_sim
