#include "compression/codecs/ladder.h"

#include "compression/base/codec.h"
#include "compression/codecs/make_codec.h"

namespace causeway::compression {

std::vector<std::string> ladder_above(std::string_view spec) {
  std::vector<std::string> ladder;
  std::size_t bytes = 0;
  const auto add = [&](std::string_view rung) {
    const auto codec = make_codec(rung);
    if (codec->encoded_bytes_max(kChunk) <= bytes) return;
    bytes = codec->encoded_bytes_max(kChunk);
    ladder.push_back(codec->spec());
  };
  add(spec);
  for (const char* rung :
       {"topk:k=128", "topk:k=256", "topk:k=512", "dense:int4", "dense:int8", "dense:fp32"}) {
    add(rung);
  }
  return ladder;
}

}  // namespace causeway::compression
