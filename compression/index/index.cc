#include "compression/index/index.h"

#include <array>

#include "compression/base/append_item.h"
#include "compression/index/index_formats.h"

namespace causeway::compression {
namespace {

struct Entry {
  const char* name;
  std::unique_ptr<IndexFormat> (*make)();
};

constexpr std::array kFormats{
    Entry{"elias-fano", make_elias_fano},
    Entry{"rice", make_rice},
    Entry{"packed-12", make_packed_12},
    Entry{"bitmap", make_bitmap},
    Entry{"raw", make_raw},
};

}  // namespace

std::unique_ptr<IndexFormat> make_index(Spec& spec, const std::string& otherwise) {
  const std::string name = spec.take_text("index", otherwise);
  std::string names;
  for (const Entry& entry : kFormats) {
    if (name == entry.name) return entry.make();
    append_item(names, entry.name);
  }
  spec.refuse("unknown index format \"" + name + "\"; allowed: " + names);
}

}  // namespace causeway::compression
