// Training data: memory-mapped tokens, the train/validation split, and which samples a step reads.
//
// Sampling (docs/rounds.md, "Shares of the data"): a sample is a window of context + 1 tokens
// starting at a multiple of `context`. Sample index = permutation(seed, epoch)[region's range +
// cursor]: each region owns a contiguous range of the permuted order, and the cursor counts the
// region's samples. Ranks split the region's batch, so n workers with batch b equal one with n x b.
// When the regions change, all begin a new pass, which has permutations of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "diloco/maths/digest.h"
#include "diloco/maths/train.h"
#include "intra/base/mapped_file.h"

namespace causeway::intra {

struct DataOptions {
  enum class Format { text, uint16, uint32, llmc };  // llmc: 256-int32-header .bin shards of llm.c
  // Paths or globs; every match is read, once, in sorted order, but for what is in the next ones.
  std::vector<std::string> files;
  // Likewise: a set that every region validates on, beside its own validation part. Empty: none.
  std::vector<std::string> validation_files = {};
  bool per_region = false;  // `files` are the region's own, all of them, not a run's to share out
  Format format = Format::text;
  double validation_fraction = 0.05;  // the last part of the tokens, never trained on
  std::int64_t vocabulary = 256;      // a token at or above it is refused with file and position
  // Up to so much, that has no digest yet, is read before a worker attaches (data_reading.h).
  std::uint64_t digest_at_once_bytes = 4ULL << 30;
};

// Of data.validation_files: all of it is for validation.
DataOptions common_validation(DataOptions options);

struct DataFile {
  std::filesystem::path path;
  FileStamp stamp;  // when it was opened
};

// All tokens of the files, in order, never copied whole into memory.
class Dataset {
 public:
  // Throws Errc::bad_data naming the file and what is wrong (no match, empty, odd size, bad magic,
  // token out of range).
  explicit Dataset(const DataOptions& options);
  ~Dataset();
  Dataset(Dataset&&) noexcept;

  std::uint64_t train_tokens() const;
  std::uint64_t validation_tokens() const;
  // Tokens [first, first + out.size()) of the training or validation part. Throw
  // Errc::data_changed for one outside the vocabulary, which was not there when they were opened.
  void read_train(std::uint64_t first, std::span<std::int32_t> out) const;
  void read_validation(std::uint64_t first, std::span<std::int32_t> out) const;
  // SHA-256 of the files' sizes and of kSampleBlocks blocks of each, evenly spread, the first
  // and the last among them; of the whole file if it is small. Names do not matter.
  diloco::Digest sample() const;
  static constexpr std::uint64_t kSampleBlocks = 16, kSampleBlockBytes = 1 << 16;
  std::vector<DataFile> files() const;  // in the order in which they are read
  // Throws Errc::data_changed naming a file that somebody wrote to since it was opened. Looks at
  // kLooks files more at each call. What was only touched, or added to, is left with a warning, as
  // a sample shows.
  void check_unchanged();
  // Likewise if whoever opens the files now reads others than this, or more of them. Of all files.
  void check_is_current() const;
  static constexpr std::size_t kLooks = 64;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

// A pseudo-random permutation of [0, size), evaluated pointwise in O(1) memory (a Feistel network
// with cycle walking).
class Permutation {
 public:
  Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch);
  std::uint64_t operator()(std::uint64_t index) const;

 private:
  std::uint64_t size_;
  std::uint64_t key_;
  unsigned half_bits_;
};

// The regions' ranges are disjoint within an epoch. Each epoch has another permutation, so a region
// sees other samples in each; where ranges differ in size or regions in speed, one region may be an
// epoch ahead of another, and the two may then share samples.
class Sampler {
 public:
  // `region_index` of `region_count`, in sorted-name order. Throws Errc::bad_data if a region's
  // range is empty.
  Sampler(const Dataset& dataset, std::int64_t context, std::uint64_t seed,
          std::size_t region_index, std::size_t region_count);
  // The range and the pass over the data from here on. Throws as the constructor does.
  void set_share(const diloco::DataShare& share);
  std::uint64_t samples_per_epoch() const;  // in this region's range
  // The region's sample number `cursor` (wraps into the next epoch): writes context tokens and
  // their context targets.
  void read(std::uint64_t cursor, std::span<std::int32_t> tokens,
            std::span<std::int32_t> targets) const;

 private:
  const Dataset* dataset_;
  std::int64_t context_;
  std::uint64_t seed_, sample_count_ = 0;
  diloco::DataShare share_;
  std::uint64_t range_begin_ = 0, range_size_ = 0;
};

}  // namespace causeway::intra
