// Any bytes are either a readable checkpoint or refused with Errc::bad_checkpoint.
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <vector>

#include "intra/base/error.h"
#include "intra/published/model_weights.h"
#include "tests/intra/data/memory_file.h"

namespace {

using causeway::intra::SafetensorsReader;

template <typename Action>
void allow_refusal(Action&& action) {
  try {
    action();
  } catch (const std::system_error& error) {
    if (error.code() != causeway::intra::Errc::bad_checkpoint) throw;
  }
}

void read_all(const std::string& path) {
  const SafetensorsReader reader(path);
  for (const std::string& name : reader.names()) {
    std::size_t count = 1;
    for (const std::int64_t dimension : reader.shape(name)) {
      count *= static_cast<std::size_t>(dimension);
    }
    std::vector<float> values(count);
    allow_refusal([&] { reader.read(name, values); });  // integers
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const causeway::intra::MemoryFile file({reinterpret_cast<const char*>(data), size});
  allow_refusal([&] { read_all(file.path()); });
  allow_refusal([&] {
    const causeway::intra::ModelOptions small{.vocabulary = 2,
                                              .context = 2,
                                              .layers = 1,
                                              .width = 2,
                                              .heads = 1,
                                              .kv_heads = 1,
                                              .hidden = 2};
    causeway::intra::WeightFiles weights(file.path());
    weights.check(small);
    const causeway::diloco::Layout layout(parameter_tensors(small));
    std::vector<float> params(layout.size());
    weights.read(small, layout, params);
  });
  return 0;
}
