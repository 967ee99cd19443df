// Any bytes are either a config.json of a model that can be trained, or refused.
#include <cstddef>
#include <cstdint>
#include <system_error>

#include "intra/base/error.h"
#include "intra/published/model_config.h"
#include "tests/intra/data/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace causeway::intra;
  const MemoryFile file({reinterpret_cast<const char*>(data), size});
  try {
    const ModelOptions options = read_model_config(file.path());
    model_config(options, file.path());
  } catch (const std::system_error& error) {
    if (error.code() != Errc::bad_checkpoint) throw;
  }
  return 0;
}
