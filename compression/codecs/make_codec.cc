#include "compression/codecs/make_codec.h"

#include <array>

#include "compression/base/spec.h"
#include "compression/index/index.h"
#include "compression/sparsifier/sparsifier.h"
#include "compression/value/value.h"

namespace causeway::compression {
namespace {

std::unique_ptr<Codec> make_dense_codec(Spec& spec) {
  if (spec.variant().empty()) {
    spec.refuse("dense needs a value format, as in dense:int8; allowed: " + value_names());
  }
  return make_dense(make_value(spec.variant(), spec));
}

void refuse_variant(const Spec& spec) {
  if (spec.variant().empty()) return;
  spec.refuse("\"" + spec.variant() + "\" is not a setting of " + spec.family());
}

using MakeSparsifier = std::unique_ptr<Sparsifier> (*)(Spec&);

template <MakeSparsifier make>
std::unique_ptr<Codec> make_sparse_codec(Spec& spec) {
  refuse_variant(spec);
  auto sparsifier = make(spec);
  auto value = make_value(spec.take_text("value", "2bit"), spec);
  auto index = make_index(spec, sparsifier->count_varies() ? "rice" : "elias-fano");
  return make_sparse(std::move(sparsifier), std::move(value), std::move(index));
}

struct Family {
  const char* name;
  std::unique_ptr<Codec> (*make)(Spec&);
};

constexpr std::array kFamilies{
    Family{"dense", make_dense_codec},
    Family{"topk", make_sparse_codec<make_topk>},
    Family{"threshold", make_sparse_codec<make_threshold>},
};

}  // namespace

std::unique_ptr<Codec> make_codec(std::string_view text) {
  Spec spec(text);
  for (const Family& family : kFamilies) {
    if (spec.family() == family.name) {
      auto codec = family.make(spec);
      spec.finish();
      return codec;
    }
  }
  // Families that earlier versions had. docs/payload.md keeps the names.
  if (spec.family() == "topk-global" || spec.family() == "randk") {
    spec.refuse("family \"" + spec.family() + "\" was removed; use topk");
  }
  spec.refuse("unknown family \"" + spec.family() + "\"; allowed: " + names_in(kFamilies));
}

}  // namespace causeway::compression
