// Bytes of a payload of GPT-2 124M: sizes depend on the layout alone, so nothing is encoded.
//
//   bench_payload_size [MATRIX_SPEC [VECTOR_SPEC]]
#include <cstdio>
#include <string>
#include <vector>

#include "compression/codecs/make_codec.h"
#include "compression/codecs/payload.h"
#include "diloco/maths/layout.h"

namespace {

using namespace causeway;

std::vector<diloco::TensorSpec> gpt2_124m() {
  std::vector<diloco::TensorSpec> tensors{{"wte", {50257, 768}}, {"wpe", {1024, 768}}};
  for (int layer = 0; layer < 12; ++layer) {
    const std::string h = "h" + std::to_string(layer) + ".";
    const std::vector<diloco::TensorSpec> block{
        {h + "qkv", {2304, 768}},    {h + "attn_out", {768, 768}}, {h + "fc", {3072, 768}},
        {h + "fc_out", {768, 3072}}, {h + "ln1_w", {768}},         {h + "ln1_b", {768}},
        {h + "ln2_w", {768}},        {h + "ln2_b", {768}},         {h + "qkv_b", {2304}},
        {h + "attn_out_b", {768}},   {h + "fc_b", {3072}},         {h + "fc_out_b", {768}}};
    tensors.insert(tensors.end(), block.begin(), block.end());
  }
  tensors.push_back({"ln_w", {768}});
  tensors.push_back({"ln_b", {768}});
  return tensors;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> specs{argc > 1 ? argv[1] : "topk:k=64",
                                       argc > 2 ? argv[2] : "dense:int8"};
  const diloco::Layout layout(gpt2_124m());
  std::vector<std::vector<std::byte>> encodings;
  std::vector<compression::EncodedSegment> segments;
  std::size_t bytes[2] = {}, elements[2] = {};
  for (const diloco::Segment& segment : layout.segments()) {
    const bool vector = segment.kind == diloco::SegmentClass::vector;
    const auto codec = compression::make_codec(specs[vector ? 1 : 0]);
    encodings.emplace_back(codec->encoded_bytes_max(segment.count));
    segments.push_back({static_cast<std::uint32_t>(segments.size()),
                        static_cast<std::uint32_t>(segment.count),
                        static_cast<std::uint8_t>(vector ? 1 : 0), encodings.back()});
    bytes[vector] += encodings.back().size();
    elements[vector] += segment.count;
  }
  const std::size_t payload = compression::write_payload(specs, segments).size();
  const auto parameters = static_cast<double>(layout.parameter_count());
  for (const int kind : {0, 1}) {
    std::printf("%s: %zu elements, %zu bytes, %.4f bits per element\n", specs[kind].c_str(),
                elements[kind], bytes[kind],
                8.0 * static_cast<double>(bytes[kind]) / static_cast<double>(elements[kind]));
  }
  std::printf("payload of %.0f parameters: %zu bytes, %.4f bits per parameter, fp32 / %.1f\n",
              parameters, payload, 8.0 * static_cast<double>(payload) / parameters,
              4 * parameters / static_cast<double>(payload));
}
