#include "intra/outer/codec_policy.h"

#include <fnmatch.h>

#include <algorithm>
#include <cassert>
#include <system_error>

#include <fmt/format.h>

#include "compression/codecs/feedback.h"
#include "compression/codecs/make_codec.h"
#include "compression/codecs/payload.h"
#include "intra/base/error.h"

namespace causeway::intra {
namespace {

[[noreturn]] void refuse_codec(const std::string& why) {
  throw std::system_error(Errc::bad_model, why);
}

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

// Why a pattern found nothing, and what it could have found.
std::string no_match(const std::string& pattern, const diloco::Layout& layout) {
  std::vector<std::string> matrices;
  bool vector = false;
  for (const diloco::PlacedTensor& tensor : layout.tensors()) {
    vector = vector || matches(pattern, tensor.spec.name);
    if (tensor.spec.shape.size() >= 2) matrices.push_back(tensor.spec.name);
  }
  return fmt::format(
      "\"{}\" in codec.tensors matches {}; its matrices are {}", pattern,
      vector ? "vectors only, which take codec.vector together" : "no tensor of the model",
      fmt::join(matrices, ", "));
}

}  // namespace

CodecPolicy::CodecPolicy(const CodecOptions& options, const diloco::Layout& layout)
    : decay_(options.feedback ? options.feedback_decay : 0.0F), error_max_(options.error_max) {
  assign_own(options, layout);
  if (error_max_ == 0) return;
  for (const std::string& spec : options.step_up)
    step_up_.push_back(add(spec, "codec.step_up", options));
}

void CodecPolicy::assign_own(const CodecOptions& options, const diloco::Layout& layout) {
  const std::uint8_t matrix = add(options.matrix, "codec.matrix", options);
  const std::uint8_t vector = add(options.vector, "codec.vector", options);
  std::vector<std::uint8_t> of_pattern;
  for (const TensorCodec& tensor : options.tensors)
    of_pattern.push_back(add(tensor.spec, "codec.tensors", options));
  std::vector<bool> used(of_pattern.size());
  for (const diloco::Segment& segment : layout.segments()) {
    if (diloco::is_statistic(segment.kind)) {  // as they are
      own_.push_back(add("dense:fp32", "buffers", options));
      continue;
    }
    own_.push_back(segment.kind == diloco::SegmentClass::vector ? vector : matrix);
    if (segment.kind == diloco::SegmentClass::vector) continue;
    const std::string& name = layout.tensor_at(segment.offset).spec.name;
    const auto found =
        std::find_if(options.tensors.begin(), options.tensors.end(),
                     [&](const TensorCodec& tensor) { return matches(tensor.pattern, name); });
    if (found == options.tensors.end()) continue;
    const auto pattern = static_cast<std::size_t>(found - options.tensors.begin());
    own_.back() = of_pattern[pattern];
    used[pattern] = true;
  }
  const auto unused = std::find(used.begin(), used.end(), false);
  if (unused == used.end()) return;
  refuse_codec(
      no_match(options.tensors[static_cast<std::size_t>(unused - used.begin())].pattern, layout));
}

std::uint8_t CodecPolicy::add(const std::string& text, const std::string& key,
                              const CodecOptions& options) {
  auto codec = compression::make_codec(text);
  const std::string spec = codec->spec();
  if (codec->is_sparse() && !options.feedback && !options.force) {
    refuse_codec(key + " = \"" + spec +
                 "\" drops coordinates, which without error feedback are lost for good; set "
                 "codec.feedback = true or choose a dense codec");
  }
  const auto known = std::find(specs_.begin(), specs_.end(), spec);
  if (known != specs_.end()) return static_cast<std::uint8_t>(known - specs_.begin());
  if (specs_.size() > 255) refuse_codec(key + ": a run has at most 256 different codecs");
  specs_.push_back(spec);
  codecs_.push_back(std::move(codec));
  return static_cast<std::uint8_t>(specs_.size() - 1);
}

std::uint64_t CodecPolicy::payload_bytes_max(const diloco::Layout& layout,
                                             std::uint32_t fragments) const {
  std::uint64_t bytes = 0;
  std::vector<compression::EncodedSegment> directory;
  for (const diloco::Segment& segment : layout.segments()) {
    const std::size_t index = directory.size();
    bytes += codecs_[own_[index]]->encoded_bytes_max(segment.count);
    directory.push_back({.index = static_cast<std::uint32_t>(index),
                         .element_count = static_cast<std::uint32_t>(segment.count),
                         .codec = own_[index],
                         .bytes = {}});
  }
  // Each fragment has a header, and a table of the codecs that are in it.
  const std::uint64_t header_bytes = compression::payload_head(specs_, {}).size();
  std::uint64_t table_bytes = 0;
  for (const std::string& spec : specs_) table_bytes += 1 + spec.size();
  return bytes + compression::payload_head(specs_, directory).size() +
         (fragments - 1) * (header_bytes + table_bytes);
}

std::uint64_t CodecPolicy::encoded_bytes_max(const diloco::Layout& layout,
                                             std::span<const std::size_t> segments) const {
  std::uint64_t bytes = 0;
  for (const std::size_t index : segments)
    bytes += codecs_[own_[index]]->encoded_bytes_max(layout.segments()[index].count);
  return bytes;
}

std::uint64_t CodecPolicy::working_bytes(const diloco::Layout& layout) const {
  const auto copies = [this](std::uint8_t codec) {
    return compression::feedback_copies(*codecs_[codec]);
  };
  std::size_t of_higher = 0;
  for (const std::uint8_t codec : step_up_) of_higher = std::max(of_higher, copies(codec));
  const std::size_t kept = step_up_.empty() ? 0 : 1;  // the residual, for another try
  std::uint64_t most = 0;
  for (const diloco::Segment& segment : layout.segments()) {
    const std::size_t index = &segment - layout.segments().data();
    most = std::max(most, segment.count * (kept + std::max(of_higher, copies(own_[index]))));
  }
  return most * sizeof(float);
}

CodecPolicy::Encoded CodecPolicy::encode(std::size_t index, std::span<const float> delta,
                                         std::span<float> residual, std::vector<std::byte>& out,
                                         const compression::EncodeKey& key) const {
  assert(index < own_.size());
  const std::size_t size_before = out.size();
  std::vector<float> residual_before;
  if (!step_up_.empty()) residual_before.assign(residual.begin(), residual.end());
  Encoded encoded;
  const auto encode_with = [&](std::uint8_t codec) {
    encoded.codec = codec;
    encoded.stats =
        compression::encode_with_feedback(*codecs_[codec], delta, decay_, residual, out, key);
  };
  encode_with(own_[index]);
  for (const std::uint8_t codec : step_up_) {
    if (encoded.stats.relative_squared_error() <= error_max_) break;
    std::copy(residual_before.begin(), residual_before.end(), residual.begin());
    out.resize(size_before);
    encode_with(codec);
    encoded.stepped_up = true;
  }
  encoded.bytes = out.size() - size_before;
  return encoded;
}

}  // namespace causeway::intra
