#include "apps/run/follow/weights_image.h"

#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <system_error>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/run/replay/replay.h"
#include "compression/base/float16.h"
#include "diloco/files/error.h"
#include "diloco/files/file_io.h"
#include "inter/base/atomic_file.h"
#include "intra/base/error.h"
#include "intra/base/safetensors.h"
#include "intra/model/model.h"
#include "intra/outer/outer_state.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLengthBytes = 8;

[[noreturn]] void refuse_image(const fs::path& file, const std::string& why) {
  throw std::system_error(make_error_code(diloco::Errc::malformed),
                          file.string() + " is no image of weights: " + why);
}

std::string header_of(const fs::path& file, const intra::SafetensorsReader& snapshot) {
  nlohmann::json header;
  for (const char* key : {"version", "digest", "layout", "tensors"}) {
    const auto found = snapshot.metadata().find(key);
    if (found == snapshot.metadata().end())
      throw std::system_error(make_error_code(intra::Errc::bad_checkpoint),
                              file.string() + " has no entry " + key);
    header[key] = found->second;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

// Empty: there is no such text.
std::string entry_in(const std::string& header, const char* key) {
  const auto json = nlohmann::json::parse(header, nullptr, false);
  if (!json.is_object() || !json.contains(key) || !json[key].is_string()) return "";
  return json[key].get<std::string>();
}

diloco::MappedBytes map_image(const fs::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) diloco::throw_errno("open", file);
  return {descriptor, fs::file_size(file)};
}

}  // namespace

void write_weights_image(const fs::path& snapshot, const fs::path& image) {
  const intra::SafetensorsReader reader(snapshot, kImageHeaderBytesMax);
  const std::string header = header_of(snapshot, reader);
  const std::uint64_t length = header.size();
  inter::AtomicFile out(image);
  out.append(std::as_bytes(std::span(&length, 1)));
  out.append(std::as_bytes(std::span(header)));
  const auto left = static_cast<std::size_t>(reader.shape("anchor").at(0));
  std::vector<float> piece(std::min(left, kImagePieceElements));
  std::vector<std::uint16_t> rounded(piece.size());
  for (std::size_t begin = 0; begin < left; begin += kImagePieceElements) {
    const std::size_t count = std::min(left - begin, kImagePieceElements);
    reader.read_part("anchor", begin, std::span(piece).first(count));
    std::transform(piece.begin(), piece.begin() + std::ptrdiff_t(count), rounded.begin(),
                   compression::bf16_nearest);
    out.append(std::as_bytes(std::span(rounded).first(count)));
  }
  out.commit(inter::Durability::visible);
}

WeightsImage::WeightsImage(const fs::path& file) : file_(file), mapped_(map_image(file)) {
  const std::span<const std::byte> bytes = mapped_.bytes();
  std::uint64_t length = 0;
  if (bytes.size() < sizeof length) refuse_image(file, "it is too short");
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > kImageHeaderBytesMax || length % 8 != 0 || length > bytes.size() - sizeof length ||
      bytes.size() % 2 != 0)
    refuse_image(file, "its header has no such length");
  header_bytes_ = length;
  const std::string version = entry_in(header(), "version");
  const auto* const end = version.data() + version.size();
  const auto read = std::from_chars(version.data(), end, version_);
  if (read.ec != std::errc() || read.ptr != end) refuse_image(file, "its header has no version");
}

std::string WeightsImage::header() const {
  return {reinterpret_cast<const char*>(mapped_.bytes().data()) + kLengthBytes, header_bytes_};
}

std::span<const std::uint16_t> WeightsImage::weights() const {
  const auto bytes = mapped_.bytes().subspan(kLengthBytes + header_bytes_);
  return {reinterpret_cast<const std::uint16_t*>(bytes.data()), bytes.size() / 2};
}

void WeightsImage::write_model(const fs::path& directory, const Config& config,
                               const std::string& run_id) const {
  const auto layout =
      intra::parse_tensors(entry_in(header(), "tensors"), entry_in(header(), "layout"));
  if (!layout || layout->size() != weights().size())
    refuse_image(file_, "it names other tensors than it holds");
  if (config.built_in_trainer() && !is_native_model(config, *layout))
    throw ConfigError("the run's model has other tensors than the one configured here");
  std::vector<float> params(layout->size());
  std::ranges::transform(weights(), params.begin(), compression::bf16_value);
  write_replayed_model(directory, config, *layout, params, {.run_id = run_id, .version = version_},
                       intra::StoredAs::bf16);
}

}  // namespace causeway::run
