#include "apps/run/probe/codec_probe.h"

#include <vector>

#include "compression/base/codec.h"
#include "diloco/files/file_io.h"
#include "diloco/maths/digest.h"
#include "diloco/pacing/time_model.h"
#include "intra/base/resources.h"
#include "intra/collective/collective.h"
#include "intra/outer/outer_round.h"

namespace causeway::run {
namespace {

constexpr int kRepetitions = 7;
constexpr int kWrites = 9;

// Encodes the pseudo-gradient and applies it as every region's. The best of a few counts: whatever
// else runs here only adds to it.
void exchange(const Config& config, const intra::OuterRound& round, intra::OuterState& state,
              intra::OuterSpans& spans, CodecProbe& out) {
  const auto alone = intra::make_solo_collective();
  state.work = {.data_cursor = 0, .steps = 1, .compute_s = state.work.compute_s};
  intra::Encoding encoding;
  out.encode_s = std::min(out.encode_s, intra::seconds_of([&] {
                            encoding = round.encode(*alone, {1, 1}, state, spans);
                          }));
  const intra::InFlight made = *state.own(encoding.part);
  out.payload_bytes = made.payload.bytes().size();
  compression::EncodeStats stats;
  for (const intra::TensorEncoding& tensor : encoding.tensors) stats += tensor.stats;
  out.relative_squared_error = stats.relative_squared_error();

  diloco::CommitRecord record;
  record.round = state.version;
  record.state = state.digest;
  std::vector<std::span<const std::byte>> payloads;
  const auto share = 1.0F / static_cast<float>(config.regions.size());
  for (const RegionConfig& region : config.regions) {
    record.participants.push_back({.region = region.name,
                                   .round = state.version,
                                   .weight = share,
                                   .payload = made.identified().payload});
    payloads.push_back(made.payload.bytes());
  }
  out.apply_s = std::min(
      out.apply_s, intra::seconds_of([&] { round.apply(*alone, record, payloads, state, spans); }));
}

}  // namespace

CodecProbe bench_codec(const Config& config, const diloco::Layout& layout,
                       const intra::OuterState& state, const std::string& codec,
                       const std::filesystem::path& directory) {
  intra::CodecOptions options = config.codec;
  options.matrix = codec;
  if (is_sparse(codec)) options.feedback = true;
  const intra::OuterRound round(
      {.region = config.regions.front().name, .region_index = 0, .seed = config.train.seed},
      options, config.outer, {}, layout);
  CodecProbe out{.codec = codec, .encode_s = 1e9, .apply_s = 1e9};
  intra::OuterState trial = state;
  intra::HostSpans spans(layout, trial);
  for (int i = 0; i < kRepetitions; ++i) {
    trial = state;
    exchange(config, round, trial, spans, out);
  }
  out.store_s = durable_write_s(directory, std::vector<std::byte>(out.payload_bytes));
  out.bits_per_parameter = 8.0 * double(out.payload_bytes) / double(layout.parameter_count());
  return out;
}

double durable_write_s(const std::filesystem::path& directory, std::span<const std::byte> content) {
  std::filesystem::create_directories(directory);
  const auto file = directory / "probe";
  std::vector<double> samples;
  for (int i = 0; i < kWrites; ++i) {
    samples.push_back(intra::seconds_of([&] {
      (void)diloco::sha256(content);
      diloco::replace_file(file, content, diloco::Durability::on_disk);
    }));
  }
  std::filesystem::remove(file);
  return diloco::tuner::quantile(samples, 0.5);
}

}  // namespace causeway::run
