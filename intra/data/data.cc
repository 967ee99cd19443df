#include "intra/data/data.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "diloco/maths/digest.h"
#include "intra/base/error.h"
#include "intra/base/splitmix.h"
#include "intra/data/data_files.h"

namespace causeway::intra {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

using Format = DataOptions::Format;

[[noreturn]] void refuse_data(const std::string& name, const std::string& why) {
  throw std::system_error(Errc::bad_data, name + " " + why);
}

[[noreturn]] void refuse_changed(const MappedFile& file, const std::string& how) {
  throw std::system_error(Errc::data_changed,
                          fmt::format("{} was written to while it was read: it {}. {}",
                                      file.path().string(), how, kHowToReplaceData));
}

// Size, and hashes of blocks, as Dataset::sample() says.
std::vector<std::byte> sample_of(std::span<const std::byte> bytes) {
  constexpr std::uint64_t kBlocks = Dataset::kSampleBlocks, kBytes = Dataset::kSampleBlockBytes;
  std::vector<std::byte> parts;
  const auto append = [&parts](const auto& value) {
    const auto added = std::as_bytes(std::span{&value, 1});
    parts.insert(parts.end(), added.begin(), added.end());
  };
  append(std::uint64_t{bytes.size()});
  if (bytes.size() <= kBlocks * kBytes) {
    append(diloco::sha256(bytes));
    return parts;
  }
  const std::uint64_t room = bytes.size() - kBytes;
  for (std::uint64_t block = 0; block + 1 < kBlocks; ++block)
    append(diloco::sha256(bytes.subspan(room / (kBlocks - 1) * block, kBytes)));
  append(diloco::sha256(bytes.last(kBytes)));
  return parts;
}

// One file's tokens: `count` of `width` bytes each, starting at byte `begin`; the first is token
// `first` of the dataset.
struct Shard {
  MappedFile file;
  std::size_t width = 1;
  std::size_t begin = 0;
  std::uint64_t count = 0;
  std::uint64_t first = 0;
  std::vector<std::byte> sample;     // of its bytes when it was opened
  std::optional<FileStamp> touched;  // when somebody last wrote to it since, as far as was looked
};

template <typename Token>
Token load(const std::byte* at) {
  Token token;
  std::memcpy(&token, at, sizeof token);
  return token;
}

// Calls visit(Token{}) with the unsigned type that is `width` bytes wide.
template <typename Visit>
void with_token_type(std::size_t width, Visit&& visit) {
  if (width == 1) return visit(std::uint8_t{});
  if (width == 2) return visit(std::uint16_t{});
  assert(width == 4);
  visit(std::uint32_t{});
}

Shard plain_shard(MappedFile file, std::size_t width) {
  const std::size_t size = file.bytes().size();
  if (size % width != 0) {
    refuse_data(
        file.path(),
        fmt::format("has {} bytes, not a multiple of the {} bytes of a token; check data.format",
                    size, width));
  }
  return {std::move(file), width, 0, size / width, 0, {}, {}};
}

// The shards of llm.c: 256 int32 (magic, version, token count, zeros), then the tokens.
Shard llmc_shard(MappedFile file) {
  constexpr std::size_t kHeaderBytes = 1024;
  constexpr std::int32_t kMagicGpt2 = 20240520, kVersionGpt2 = 1;      // uint16 tokens
  constexpr std::int32_t kMagicLlama3 = 20240801, kVersionLlama3 = 7;  // uint32 tokens
  const std::span<const std::byte> bytes = file.bytes();
  if (bytes.size() < kHeaderBytes)
    refuse_data(file.path(), "is too short for llm.c's 1024-byte header; check data.format");
  const auto magic = load<std::int32_t>(bytes.data());
  const auto version = load<std::int32_t>(bytes.data() + 4);
  const auto count = load<std::int32_t>(bytes.data() + 8);
  std::size_t width = 0;
  if (magic == kMagicGpt2 && version == kVersionGpt2) width = 2;
  if (magic == kMagicLlama3 && version == kVersionLlama3) width = 4;
  if (width == 0) {
    refuse_data(file.path(),
                fmt::format("has magic {} and version {}; a .bin shard of llm.c has 20240520 and 1 "
                            "(uint16 tokens) or 20240801 and 7 (uint32 tokens)",
                            magic, version));
  }
  if (count <= 0) refuse_data(file.path(), fmt::format("says that it has {} tokens", count));
  const std::size_t expected = kHeaderBytes + width * static_cast<std::size_t>(count);
  if (bytes.size() != expected) {
    refuse_data(
        file.path(),
        fmt::format("has {} bytes where its header's {} tokens need {}; copy the file again",
                    bytes.size(), count, expected));
  }
  return {std::move(file), width, kHeaderBytes, static_cast<std::uint64_t>(count), 0, {}, {}};
}

Shard open_shard(const std::string& path, Format format) {
  MappedFile file{path};
  switch (format) {
    case Format::text:
      return plain_shard(std::move(file), 1);
    case Format::uint16:
      return plain_shard(std::move(file), 2);
    case Format::uint32:
      return plain_shard(std::move(file), 4);
    case Format::llmc:
      return llmc_shard(std::move(file));
  }
  assert(false && "a format without a reader");
  std::abort();
}

// Reads the whole shard once, so that a token outside the vocabulary is found before hours of
// training, not after.
template <typename Token>
void check_tokens(const Shard& shard, std::uint64_t vocabulary) {
  if (std::uint64_t{std::numeric_limits<Token>::max()} < vocabulary) return;
  constexpr std::uint64_t kBlock = 1 << 16;
  const std::byte* const tokens = shard.file.bytes().data() + shard.begin;
  for (std::uint64_t begin = 0; begin < shard.count; begin += kBlock) {
    const std::uint64_t end = std::min(begin + kBlock, shard.count);
    Token largest = 0;
    for (std::uint64_t i = begin; i < end; ++i) {
      largest = std::max(largest, load<Token>(tokens + i * sizeof(Token)));
    }
    if (largest < vocabulary) continue;
    std::uint64_t i = begin;
    while (load<Token>(tokens + i * sizeof(Token)) < vocabulary) ++i;
    refuse_data(shard.file.path(),
                fmt::format("has token {} at position {}, but model.vocabulary is {}",
                            load<Token>(tokens + i * sizeof(Token)), i, vocabulary));
  }
}

template <typename Token>
void copy_tokens(const Shard& shard, std::uint64_t begin, std::span<std::int32_t> out) {
  const std::byte* at = shard.file.bytes().data() + shard.begin + begin * sizeof(Token);
  for (std::int32_t& token : out) {
    token = static_cast<std::int32_t>(load<Token>(at));
    at += sizeof(Token);
  }
}

}  // namespace

DataOptions common_validation(DataOptions options) {
  options.files = std::move(options.validation_files);
  options.validation_files.clear();
  options.validation_fraction = 1;
  return options;
}

class Dataset::Implementation {
 public:
  explicit Implementation(const DataOptions& options);

  std::uint64_t train_tokens() const { return train_tokens_; }
  std::uint64_t validation_tokens() const { return tokens_ - train_tokens_; }
  void read(std::uint64_t first, std::span<std::int32_t> out) const;
  diloco::Digest sample() const;
  std::vector<DataFile> files() const;
  void check_unchanged();
  void check_is_current() const;

 private:
  void check_vocabulary(const Shard& shard, std::span<const std::int32_t> tokens) const;
  static void leave_touched(Shard& shard, const FileStamp& now);

  std::vector<Shard> shards_;
  std::size_t next_look_ = 0;  // a shard
  std::uint64_t vocabulary_ = 0;
  std::uint64_t tokens_ = 0;
  std::uint64_t train_tokens_ = 0;
};

Dataset::Implementation::Implementation(const DataOptions& options) {
  if (!(options.validation_fraction >= 0 && options.validation_fraction <= 1)) {
    refuse_data("validation_fraction", "must be 0 to 1");
  }
  // Tokens are handed out as int32.
  vocabulary_ = static_cast<std::uint64_t>(
      std::clamp<std::int64_t>(options.vocabulary, 0, std::int64_t{1} << 31));
  for (const std::string& path : find_data_files(options)) {
    Shard shard = open_shard(path, options.format);
    with_token_type(shard.width,
                    [&](auto token) { check_tokens<decltype(token)>(shard, vocabulary_); });
    shard.first = tokens_;
    shard.sample = sample_of(shard.file.bytes());
    tokens_ += shard.count;
    shards_.push_back(std::move(shard));
  }
  const double validation = options.validation_fraction * static_cast<double>(tokens_);
  train_tokens_ = tokens_ - static_cast<std::uint64_t>(validation);
}

void Dataset::Implementation::read(std::uint64_t first, std::span<std::int32_t> out) const {
  assert(first <= tokens_ && out.size() <= tokens_ - first);
  auto shard =
      std::upper_bound(shards_.begin(), shards_.end(), first,
                       [](std::uint64_t token, const Shard& s) { return token < s.first; });
  // `shard` is the first that starts after `first`; reading begins in the one before it.
  for (--shard; !out.empty(); ++shard) {
    const std::uint64_t begin = first - shard->first;
    const std::size_t count = std::min<std::uint64_t>(out.size(), shard->count - begin);
    with_token_type(shard->width, [&](auto token) {
      copy_tokens<decltype(token)>(*shard, begin, out.first(count));
    });
    check_vocabulary(*shard, out.first(count));
    out = out.subspan(count);
    first += count;
  }
}

// An embedding that does not exist would be read, and written to.
void Dataset::Implementation::check_vocabulary(const Shard& shard,
                                               std::span<const std::int32_t> tokens) const {
  std::uint32_t largest = 0;
  for (const std::int32_t token : tokens)
    largest = std::max(largest, static_cast<std::uint32_t>(token));
  if (largest < vocabulary_) return;
  refuse_changed(shard.file,
                 fmt::format("has token {} now, but model.vocabulary is {}", largest, vocabulary_));
}

void Dataset::Implementation::check_unchanged() {
  for (std::size_t look = 0; look < std::min(kLooks, shards_.size()); ++look) {
    Shard& shard = shards_[next_look_];
    next_look_ = (next_look_ + 1) % shards_.size();
    const std::optional<MappedFile::Now> now = shard.file.now();
    const bool is_written =
        now && !now->is_another_file && now->stamp.was_written_since(shard.file.stamp());
    if (is_written) leave_touched(shard, now->stamp);
  }
}

void Dataset::Implementation::check_is_current() const {
  for (const Shard& shard : shards_) {
    const std::optional<MappedFile::Now> now = shard.file.now();
    if (!now) continue;
    const bool is_written = now->stamp.was_written_since(shard.file.stamp());
    const bool is_other = now->is_another_file || now->stamp.size != shard.file.stamp().size ||
                          (is_written && sample_of(shard.file.bytes()) != shard.sample);
    if (!is_other) continue;
    throw std::system_error(
        Errc::data_changed,
        shard.file.path().string() +
            " was replaced, or added to, since this worker opened it, and another rank may read it "
            "as it is now. The next start reads what is there then");
  }
}

// What is read of it is as before; otherwise it throws.
void Dataset::Implementation::leave_touched(Shard& shard, const FileStamp& now) {
  const auto before = std::exchange(shard.touched, now);
  if (before && !now.was_written_since(*before)) return;
  if (sample_of(shard.file.bytes()) != shard.sample)
    refuse_changed(shard.file, "has other bytes than when it was opened");
  if (before) return;  // one warning is enough for a file that grows
  spdlog::warn(
      "{} was touched, or added to, while it was read: by a sample, what is read of it is as "
      "before",
      shard.file.path().string());
}

std::vector<DataFile> Dataset::Implementation::files() const {
  std::vector<DataFile> files;
  for (const Shard& shard : shards_) files.push_back({shard.file.path(), shard.file.stamp()});
  return files;
}

diloco::Digest Dataset::Implementation::sample() const {
  std::vector<std::byte> parts;
  for (const Shard& shard : shards_)
    parts.insert(parts.end(), shard.sample.begin(), shard.sample.end());
  return diloco::sha256(parts);
}

Dataset::Dataset(const DataOptions& options)
    : implementation_(std::make_unique<Implementation>(options)) {}
Dataset::~Dataset() = default;
Dataset::Dataset(Dataset&&) noexcept = default;

std::uint64_t Dataset::train_tokens() const {
  return implementation_->train_tokens();
}
std::uint64_t Dataset::validation_tokens() const {
  return implementation_->validation_tokens();
}

void Dataset::read_train(std::uint64_t first, std::span<std::int32_t> out) const {
  assert(first <= train_tokens() && out.size() <= train_tokens() - first);
  implementation_->read(first, out);
}

void Dataset::read_validation(std::uint64_t first, std::span<std::int32_t> out) const {
  assert(first <= validation_tokens() && out.size() <= validation_tokens() - first);
  implementation_->read(train_tokens() + first, out);
}

diloco::Digest Dataset::sample() const {
  return implementation_->sample();
}

std::vector<DataFile> Dataset::files() const {
  return implementation_->files();
}
void Dataset::check_unchanged() {
  implementation_->check_unchanged();
}
void Dataset::check_is_current() const {
  implementation_->check_is_current();
}

// Which window of the training part a step reads: the declarations are in data.h.

Permutation::Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch)
    : size_(size),
      key_(mix(mix(seed + kGolden) + epoch * kGolden)),
      half_bits_(std::max(1U, static_cast<unsigned>(std::bit_width(size - 1) + 1) / 2)) {
  assert(size > 0 && size <= std::uint64_t{1} << 62);
}

std::uint64_t Permutation::operator()(std::uint64_t index) const {
  assert(index < size_);
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  // The network permutes [0, 4^half_bits), which is less than four times too large: walking its
  // cycle until it is back inside permutes [0, size).
  do {
    std::uint64_t left = index >> half_bits_;
    std::uint64_t right = index & mask;
    for (std::uint64_t round = 1; round <= 6; ++round) {
      const std::uint64_t next = left ^ (mix(right + (key_ ^ (round * kGolden))) & mask);
      left = right;
      right = next;
    }
    index = left << half_bits_ | right;
  } while (index >= size_);
  return index;
}

Sampler::Sampler(const Dataset& dataset, std::int64_t context, std::uint64_t seed,
                 std::size_t region_index, std::size_t region_count)
    : dataset_(&dataset), context_(context), seed_(seed) {
  assert(context > 0);
  // The last window's last target is one token past its context.
  const std::uint64_t tokens = dataset.train_tokens();
  sample_count_ = tokens == 0 ? 0 : (tokens - 1) / static_cast<std::uint64_t>(context);
  set_share({.index = static_cast<std::uint32_t>(region_index),
             .count = static_cast<std::uint32_t>(region_count)});
}

void Sampler::set_share(const diloco::DataShare& share) {
  assert(share.index < share.count);
  if (share == share_) return;
  if (sample_count_ < share.count) {
    throw std::system_error(
        Errc::bad_data,
        fmt::format("the training part has {} tokens, which is {} windows of context {} for {} "
                    "regions, and each region needs one; give more data or a smaller model.context",
                    dataset_->train_tokens(), sample_count_, context_, share.count));
  }
  share_ = share;
  // Near-equal ranges: the first sample_count % count regions get one more.
  const std::uint64_t size = sample_count_ / share.count, extra = sample_count_ % share.count;
  range_begin_ = size * share.index + std::min<std::uint64_t>(share.index, extra);
  range_size_ = size + (share.index < extra ? 1 : 0);
}

std::uint64_t Sampler::samples_per_epoch() const {
  return range_size_;
}

void Sampler::read(std::uint64_t cursor, std::span<std::int32_t> tokens,
                   std::span<std::int32_t> targets) const {
  const auto length = static_cast<std::size_t>(context_);
  assert(tokens.size() == length && targets.size() == length);
  const std::uint64_t place = cursor - std::min(cursor, share_.begin);
  const std::uint64_t epoch = (share_.pass << 32) + place / range_size_;
  const Permutation permutation(sample_count_, seed_, epoch);
  const std::uint64_t sample = permutation(range_begin_ + place % range_size_);
  dataset_->read_train(sample * length, tokens);
  dataset_->read_train(sample * length + 1, targets);
}

}  // namespace causeway::intra
