#include "compression/codec.h"

#include <bit>

#include "compression/chunk_codec.h"
#include "compression/spec.h"

namespace causeway::compression {
namespace {

std::unique_ptr<Codec> make_dense(Spec& spec) {
  if (spec.variant() == "fp32") {
    spec.finish();
    return make_dense_fp32();
  }
  if (spec.variant() == "int8") {
    const std::size_t block = spec.take_number(
        "block", 128, [](std::size_t n) { return std::has_single_bit(n) && n <= kChunk; },
        "a power of two from 1 to 4096");
    spec.finish();
    return make_dense_int8(block);
  }
  spec.refuse("dense needs a value format; allowed: dense:fp32, dense:int8[,block=128]");
}

std::unique_ptr<Codec> make_sparse(Spec& spec) {
  if (!spec.variant().empty()) spec.refuse("\"" + spec.variant() + "\" is not a setting of topk");
  const std::size_t k = spec.take_number(
      "k", 64, [](std::size_t n) { return n >= 1 && n <= kChunk; },
      "a number from 1 to 4096: the elements kept of each chunk");
  spec.take_number(
      "chunk", kChunk, [](std::size_t n) { return n == kChunk; }, "4096");
  spec.take_word("value", "2bit", {"2bit"});
  spec.take_word("index", "elias-fano", {"elias-fano"});
  spec.finish();
  return make_topk(k);
}

}  // namespace

std::unique_ptr<Codec> make_codec(std::string_view text) {
  Spec spec(text);
  if (spec.family() == "dense") return make_dense(spec);
  if (spec.family() == "topk") return make_sparse(spec);
  spec.refuse("unknown family \"" + spec.family() + "\"; allowed: dense, topk");
}

}  // namespace causeway::compression
