#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstdint>
#include <future>
#include <set>
#include <span>

#include <nlohmann/json.hpp>

#include "compression/base/float16.h"
#include "compression/base/parallel.h"
#include "diloco/files/file_io.h"
#include "diloco/maths/digest.h"
#include "diloco/maths/layout.h"
#include "intra/base/safetensors.h"

namespace causeway::intra {

std::optional<HeaderHash> header_hash(std::string text) {
  const std::string key = '"' + std::string(kSafetensorsHeaderKey) + "\":\"";
  const std::size_t digits = 2 * sizeof(diloco::Digest);
  const std::size_t found = text.find(key);
  if (found == std::string::npos || text.size() - found < key.size() + digits) return std::nullopt;
  HeaderHash hash{.place = found + key.size(), .said = {}, .computed = {}};
  hash.said = text.substr(hash.place, digits);
  text.replace(hash.place, digits, digits, '0');
  const std::uint64_t length = text.size();
  text.insert(0, reinterpret_cast<const char*>(&length), sizeof length);
  hash.computed = diloco::to_hex(diloco::sha256(std::as_bytes(std::span(text))));
  return hash;
}

namespace {

namespace fs = std::filesystem;

void check(std::span<const TensorView> tensors) {
  std::set<std::string> names;
  for (const TensorView& tensor : tensors) {
    const diloco::TensorSpec spec{tensor.name, tensor.shape};
    assert(spec.count() == tensor.values.size());
    assert(tensor.name != "__metadata__" && names.insert(tensor.name).second);
  }
}

// The tensors' bytes as they are written.
class Written {
 public:
  Written(std::span<const TensorView> tensors, StoredAs stored, const WriteHooks& hooks)
      : tensors_(tensors), stored_(stored), rounded_(tensors.size()), readers_(tensors.size()) {
    for (std::atomic<int>& readers : readers_) readers = 2;
    tensor_read_ = hooks.tensor_read;
    if (stored == StoredAs::fp32) return;
    for_each([this](std::size_t i) {
      rounded_[i].resize(tensors_[i].values.size());
      std::ranges::transform(tensors_[i].values, rounded_[i].begin(), compression::bf16_nearest);
    });
  }
  const char* type() const { return stored_ == StoredAs::fp32 ? "F32" : "BF16"; }
  std::span<const std::byte> bytes(std::size_t i) const {
    return stored_ == StoredAs::fp32 ? std::as_bytes(tensors_[i].values)
                                     : std::as_bytes(std::span(rounded_[i]));
  }
  // Large enough that hashing is worth a thread of its own beside the writing, and that the
  // kernel need not keep the file in memory.
  bool is_large() const { return total_bytes() >= std::size_t{64} << 20; }
  std::size_t total_bytes() const {
    std::size_t total = 0;
    for (std::size_t i = 0; i < tensors_.size(); ++i) total += bytes(i).size();
    return total;
  }
  // By several threads: a hash may take longer than its bytes' way to disk.
  std::vector<std::string> hashes() {
    std::vector<std::string> hashes(tensors_.size());
    for_each([&](std::size_t i) {
      const bool known = tensors_[i].hash && stored_ == StoredAs::fp32;
      hashes[i] = diloco::to_hex(known ? *tensors_[i].hash : diloco::tree_hash(bytes(i)));
      read(i);
    });
    return hashes;
  }
  // By one of the two who do.
  void read(std::size_t i) {
    if (--readers_[i] == 0 && tensor_read_) tensor_read_(i);
  }

 private:
  // The first ones first: somebody may wait for them.
  template <typename Work>
  void for_each(const Work& work) const {
    std::atomic<std::size_t> next = 0;
    const auto one = [&](std::size_t) {
      work(next++);
      return true;
    };
    compression::first_failure(tensors_.size(), one, 1);
  }

  std::span<const TensorView> tensors_;
  StoredAs stored_;
  std::vector<std::vector<std::uint16_t>> rounded_;
  std::vector<std::atomic<int>> readers_;  // of each tensor, that are not done with it
  std::function<void(std::size_t)> tensor_read_;
};

std::string make_header(std::span<const TensorView> tensors, const Written& written,
                        const std::map<std::string, std::string>& metadata,
                        const std::vector<std::string>& hashes) {
  nlohmann::json header;
  header["__metadata__"] = metadata;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorView& tensor = tensors[i];
    const std::size_t end = begin + written.bytes(i).size();
    header[tensor.name] = {
        {"dtype", written.type()}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
    header["__metadata__"][std::string(kSafetensorsTreePrefix) + tensor.name] = hashes[i];
    begin = end;
  }
  header["__metadata__"][std::string(kSafetensorsFormatKey)] = std::string(kSafetensorsFormat);
  header["__metadata__"][std::string(kSafetensorsHeaderKey)] =
      std::string(2 * sizeof(diloco::Digest), '0');
  std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  // Tensors start on a multiple of eight, so that readers may map them.
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const auto hash = header_hash(text);
  return text.replace(hash->place, hash->computed.size(), hash->computed);
}

}  // namespace

void write_safetensors(const fs::path& file, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata, const WriteHooks& hooks,
                       StoredAs stored) {
  check(tensors);
  Written written(tensors, stored, hooks);
  const std::string unknown(2 * sizeof(diloco::Digest), '0');  // a hash, as long as it is not known
  const std::string reserved =
      make_header(tensors, written, metadata, std::vector(tensors.size(), unknown));
  assert(reserved.size() <= kSafetensorsHeaderBytesMax);
  const std::uint64_t length = reserved.size();
  diloco::AtomicFile out(file, written.is_large() ? diloco::Through::disk : diloco::Through::cache);
  if (written.is_large()) out.reserve(sizeof length + length + written.total_bytes());
  // At the end, if it is small or no more threads are allowed.
  const auto now_or_later = std::launch::async | std::launch::deferred;
  auto hashing = std::async(written.is_large() ? now_or_later : std::launch::deferred,
                            [&written] { return written.hashes(); });
  out.append(std::as_bytes(std::span(&length, 1)));
  out.append(std::as_bytes(std::span(reserved)));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    out.append(written.bytes(i));
    written.read(i);
  }
  const std::string header = make_header(tensors, written, metadata, hashing.get());
  assert(header.size() == length);
  out.overwrite(sizeof length, std::as_bytes(std::span(header)));
  if (hooks.before_it_is_named) {
    out.sync();
    hooks.before_it_is_named();
  }
  out.commit(diloco::Durability::on_disk);
}

}  // namespace causeway::intra
