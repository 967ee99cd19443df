// Encoding and decoding.
#include <cassert>
#include <cmath>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include "intra/cuda/step/device_spans.h"

namespace causeway::intra::cuda {
namespace {

using compression::kChunk;
using compression::cuda::ChunkNorms;
using compression::cuda::DeviceFormat;
using compression::cuda::JobsOf;
using Formats = std::vector<std::optional<DeviceFormat>>;

Formats formats_of(const std::vector<std::string>& specs) {
  Formats formats;
  for (const std::string& spec : specs) formats.push_back(compression::cuda::device_format(spec));
  return formats;
}

// As global_norm() adds them.
double norm_of(std::span<const double> sums) {
  double total = 0;
  for (std::size_t block = 0; block < sums.size(); block += kSquareSums) {
    double of_block = 0;
    for (const double sum : sums.subspan(block, kSquareSums)) of_block += sum;
    total += of_block;
  }
  return std::sqrt(total);
}

}  // namespace

std::vector<CodecPolicy::Encoded> DeviceSpans::encode(const CodecPolicy& policy,
                                                      const compression::EncodeKey& key,
                                                      Segments segments,
                                                      std::vector<std::byte>& out) {
  const Formats formats = formats_of(policy.specs());
  const auto same_codec = [&](std::size_t a, std::size_t b) {
    return policy.sole_codec(a) == policy.sole_codec(b);
  };
  std::vector<CodecPolicy::Encoded> encoded;
  for (const Run& run : runs(segments, same_codec)) {
    const std::optional<std::uint8_t> codec = policy.sole_codec(run.segments.front());
    if (!codec || !formats[*codec]) {
      encode_on_host(policy, key, run, encoded, out);
      continue;
    }
    std::visit(
        [&](const auto& format) { encode_run(format, *codec, policy.decay(), run, encoded, out); },
        *formats[*codec]);
  }
  return encoded;
}

template <typename Format>
void DeviceSpans::encode_run(const Format& format, std::uint8_t codec, float beta, const Run& run,
                             std::vector<CodecPolicy::Encoded>& encoded,
                             std::vector<std::byte>& out) {
  const std::size_t bytes = run.chunks() * format.bytes();
  const std::vector<double> delta_squares = squares(run);
  float* const residual = at(Flat::residual, run);
  const typename JobsOf<Format>::Encode job{
      .format = format,
      .rows = static_cast<std::int64_t>(run.chunks()),
      .first = {at(Flat::scratch, run), residual, residual, beta},
      .bytes = bytes_.at_least(bytes),
      .norms = norms_.at_least(run.chunks()),
      .bad = clear_bad()};
  queue_.run(job);
  changed(Flat::residual, run);
  out.resize(out.size() + bytes);
  queue_.download(job.bytes, out.data() + out.size() - bytes, bytes);
  std::vector<ChunkNorms> norms(run.chunks());
  queue_.download(job.norms, norms.data(), norms.size() * sizeof norms[0]);
  assert(!first_bad());
  std::size_t chunk = 0;
  for (std::size_t i = 0; i < run.segments.size(); ++i) {
    CodecPolicy::Encoded one{.delta_squared = delta_squares[i], .codec = codec};
    const std::size_t end = chunk + layout().segments()[run.segments[i]].count / kChunk;
    one.bytes = (end - chunk) * format.bytes();
    for (; chunk < end; ++chunk)
      one.stats += compression::EncodeStats{norms[chunk].input, norms[chunk].error};
    encoded.push_back(one);
  }
}

// Of each segment of the run: ||delta||^2.
std::vector<double> DeviceSpans::squares(const Run& run) {
  std::vector<SquareBlock> blocks;
  std::vector<std::size_t> ends;  // of each segment's blocks
  std::size_t begin = 0;
  for (const std::size_t index : run.segments) {
    const std::size_t count = layout().segments()[index].count;
    append_blocks(begin, count, blocks);
    ends.push_back(blocks.size());
    begin += count;
  }
  SquareBlock* const on_device = square_blocks_.at_least(blocks.size());
  queue_.upload(blocks.data(), on_device, blocks.size() * sizeof blocks[0]);
  std::vector<double> sums(blocks.size() * kSquareSums);
  double* const sums_on_device = sums_.at_least(sums.size());
  queue_.run(BlockSquares{blocks.size(), on_device, at(Flat::scratch, run), sums_on_device});
  queue_.download(sums_on_device, sums.data(), sums.size() * sizeof sums[0]);
  std::vector<double> squares;
  std::size_t first = 0;
  for (const std::size_t end : ends) {
    const double norm = norm_of(
        std::span(std::as_const(sums)).subspan(first * kSquareSums, (end - first) * kSquareSums));
    squares.push_back(norm * norm);
    first = end;
  }
  return squares;
}

void DeviceSpans::encode_on_host(const CodecPolicy& policy, const compression::EncodeKey& key,
                                 const Run& run, std::vector<CodecPolicy::Encoded>& encoded,
                                 std::vector<std::byte>& out) {
  for (const Run& one : each(run)) {
    const std::size_t index = one.segments.front();
    std::vector<float> residual = fetch(Flat::residual, one);
    const std::vector<float> delta = fetch(Flat::scratch, one);
    encoded.push_back(policy.encode(index, delta, residual, out, key_of(key, index)));
    const double norm = global_norm(delta);
    encoded.back().delta_squared = norm * norm;
    store(residual, Flat::residual, one);
  }
}

void DeviceSpans::add(const intra::Decoder& payload, float weight, Flat which, Segments segments) {
  take_from_steps(which);
  const Formats formats = formats_of(payload.specs());
  const auto same_codec = [&](std::size_t a, std::size_t b) {
    return payload.at(a).codec == payload.at(b).codec;
  };
  std::uint32_t* const bad = clear_bad();
  for (const Run& run : runs(segments, same_codec)) {
    if (const auto& format = formats[payload.at(run.segments.front()).codec]) {
      std::visit([&](const auto& own) { add_run(own, payload, weight, which, run, bad); }, *format);
      continue;
    }
    for (const Run& one : each(run)) {
      std::vector<float> sum = fetch(which, one);
      payload.add(one.segments.front(), weight, sum);
      store(sum, which, one);
    }
  }
  give_back_to_steps(which);
  if (const auto chunk = first_bad()) {
    throw std::system_error(compression::Errc::malformed, "chunk " + std::to_string(*chunk));
  }
}

template <typename Format>
void DeviceSpans::add_run(const Format& format, const intra::Decoder& payload, float weight,
                          Flat which, const Run& run, std::uint32_t* bad) {
  std::uint8_t* const bytes = bytes_.at_least(run.chunks() * format.bytes());
  std::uint8_t* to = bytes;
  for (const std::size_t index : run.segments) {
    const compression::EncodedSegment& segment = payload.at(index);
    const std::size_t needed = segment.element_count / kChunk * format.bytes();
    if (segment.bytes.size() != needed) {
      throw std::system_error(compression::Errc::malformed,
                              "segment " + std::to_string(index) + " has " +
                                  std::to_string(segment.bytes.size()) + " bytes where " +
                                  std::to_string(needed) + " are needed");
    }
    queue_.upload(segment.bytes.data(), to, needed);
    to += needed;
  }
  queue_.run(typename JobsOf<Format>::Decode{.format = format,
                                             .rows = static_cast<std::int64_t>(run.chunks()),
                                             .bytes = bytes,
                                             .weight = weight,
                                             .accumulator = at(which, run),
                                             .bad = bad + run.begin / kChunk});
  changed(which, run);
}

}  // namespace causeway::intra::cuda
