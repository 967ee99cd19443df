#include "intra/data/data.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <system_error>
#include <utility>

#include "intra/base/error.h"
#include "intra/data/data_files.h"

namespace causeway::intra {

Dataset::Dataset(const DataOptions& options) {
  if (!(options.validation_fraction >= 0 && options.validation_fraction <= 1))
    throw std::system_error(Errc::bad_data, "validation_fraction must be 0 to 1");
  // Tokens are handed out as int32.
  const auto vocabulary = static_cast<std::uint64_t>(
      std::clamp<std::int64_t>(options.vocabulary, 0, std::int64_t{1} << 31));
  for (const std::string& path : find_data_files(options)) {
    TokenFile file(
        path, options.format, vocabulary,
        {.said_from_bytes = options.digest_at_once_bytes, .interrupted = options.interrupted});
    const std::uint64_t count = file.tokens();
    parts_.push_back({std::move(file), tokens_});
    tokens_ += count;
  }
  const double validation = options.validation_fraction * static_cast<double>(tokens_);
  train_tokens_ = tokens_ - static_cast<std::uint64_t>(validation);
}

void Dataset::read_train(std::uint64_t first, std::span<std::int32_t> out) const {
  assert(first <= train_tokens() && out.size() <= train_tokens() - first);
  read(first, out);
}

void Dataset::read_validation(std::uint64_t first, std::span<std::int32_t> out) const {
  assert(first <= validation_tokens() && out.size() <= validation_tokens() - first);
  read(train_tokens() + first, out);
}

void Dataset::read(std::uint64_t first, std::span<std::int32_t> out) const {
  assert(first <= tokens_ && out.size() <= tokens_ - first);
  auto part = std::ranges::upper_bound(parts_, first, {}, &Part::first);
  // `part` is the first that starts after `first`; reading begins in the one before it.
  for (--part; !out.empty(); ++part) {
    const std::uint64_t begin = first - part->first;
    const std::size_t count = std::min<std::uint64_t>(out.size(), part->file.tokens() - begin);
    part->file.read(begin, out.first(count));
    out = out.subspan(count);
    first += count;
  }
}

diloco::Digest Dataset::sample() const {
  std::vector<std::byte> samples;
  for (const Part& part : parts_)
    samples.insert(samples.end(), part.file.sample().begin(), part.file.sample().end());
  return diloco::sha256(samples);
}

std::vector<DataFile> Dataset::files() const {
  std::vector<DataFile> files;
  for (const auto& [one, first] : parts_) files.push_back({one.file().path(), one.file().stamp()});
  return files;
}

void Dataset::check_unchanged() {
  for (std::size_t look = 0; look < std::min(kLooks, parts_.size()); ++look) {
    TokenFile& file = parts_[next_look_].file;
    next_look_ = (next_look_ + 1) % parts_.size();
    file.check_unchanged();
  }
}

void Dataset::check_is_current() const {
  for (const Part& part : parts_) part.file.check_is_current();
}

}  // namespace causeway::intra
