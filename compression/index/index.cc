#include "compression/index/index.h"

#include <array>

#include "compression/base/spec.h"

namespace causeway::compression {
namespace {

struct IndexEntry {
  const char* name;
  std::unique_ptr<IndexFormat> (*make)();
};

constexpr std::array kIndexFormats{
    IndexEntry{"elias-fano", make_elias_fano},
    IndexEntry{"rice", make_rice},
    IndexEntry{"packed-12", make_packed_12},
    IndexEntry{"bitmap", make_bitmap},
    IndexEntry{"raw", make_raw},
};

}  // namespace

std::unique_ptr<IndexFormat> make_index(Spec& spec, const std::string& otherwise) {
  const std::string name = spec.take_text("index", otherwise);
  std::string names;
  for (const IndexEntry& entry : kIndexFormats) {
    if (name == entry.name) return entry.make();
    append_item(names, entry.name);
  }
  spec.refuse("unknown index format \"" + name + "\"; allowed: " + names);
}

}  // namespace causeway::compression
