#include "apps/run/watch/tensorboard.h"

#include <array>

#include "apps/run/watch/event.pb.h"
#include "diloco/files/file_io.h"
#include "inter/base/wire.h"

namespace causeway::run {
namespace {

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) ? 0x82F63B78U : 0U);
    table[i] = value;
  }
  return table;
}
constexpr auto kCrcTable = make_crc_table();

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char c : bytes)
    crc = kCrcTable[(crc ^ static_cast<unsigned char>(c)) & 0xFF] ^ (crc >> 8);
  return ~crc;
}

// A checksum of bytes that contain checksums is weak; the mask is TensorFlow's cure.
std::uint32_t masked_crc32c(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

std::string frame_record(std::string_view event) {
  const std::string length = inter::little_endian_text(std::uint64_t{event.size()});
  return length + inter::little_endian_text(masked_crc32c(length)) + std::string(event) +
         inter::little_endian_text(masked_crc32c(event));
}

TensorboardWriter::TensorboardWriter(const std::filesystem::path& directory)
    : file_(directory / "events.out.tfevents.0.causeway") {
  diloco::create_private_directories(directory);
  std::filesystem::remove(file_);
  out_ = diloco::open_to_append(file_);
  tensorboard::Event first;
  first.set_file_version("brain.Event:2");
  write(first.SerializeAsString());
}

void TensorboardWriter::scalars(double wall_time_s, std::int64_t step,
                                const std::map<std::string, double>& values) {
  tensorboard::Event event;
  event.set_wall_time(wall_time_s);
  event.set_step(step);
  for (const auto& [tag, value] : values) {
    auto* entry = event.mutable_summary()->add_value();
    entry->set_tag(tag);
    entry->set_simple_value(static_cast<float>(value));
  }
  write(event.SerializeAsString());
}

void TensorboardWriter::write(std::string_view event) {
  const std::string record = frame_record(event);
  diloco::append_whole(out_.get(), std::as_bytes(std::span(record)), file_);
}

void Tensorboard::write() {
  for (; !waiting_.empty(); waiting_.pop_front()) write(waiting_.front());
}

void Tensorboard::write(const Sample& sample) {
  const auto directory = out_ / "tensorboard" / sample.region;
  TensorboardWriter& writer = writers_.try_emplace(sample.region, directory).first->second;
  std::map<std::string, double> values = {{"tokens_per_s", sample.tokens_per_s},
                                          {"wan_bytes", double(sample.wan_tx_bytes)}};
  if (sample.loss) values["loss"] = *sample.loss;
  if (sample.val_loss) values["val_loss"] = *sample.val_loss;
  writer.scalars(began_s_ + sample.time_s, static_cast<std::int64_t>(sample.step), values);
}

}  // namespace causeway::run
