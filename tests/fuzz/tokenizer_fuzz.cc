// Any bytes are either a tokenizer.json or refused; what one makes of a text stands for that text.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <system_error>

#include "intra/base/error.h"
#include "intra/published/tokenizer.h"
#include "tests/intra/data/memory_file.h"

namespace {

constexpr std::string_view kTexts[] = {"", "the end", "  12 \xC3\x9F\n\n'S \xE2\x82\xAC <|end|>"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace causeway::intra;
  const MemoryFile file({reinterpret_cast<const char*>(data), size});
  try {
    const Tokenizer tokenizer(file.path());
    for (const std::string_view text : kTexts) tokenizer.decode(tokenizer.encode(text));
  } catch (const std::system_error& error) {
    if (error.code() != Errc::bad_data) throw;
  }
  return 0;
}
