// Which files are training data, and how they are read.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

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
  // Up to so much, that has no digest yet, is read before a worker attaches (data_reading.h). Of a
  // file that is larger the log says when its tokens are looked through.
  std::uint64_t digest_at_once_bytes = 4ULL << 30;
  // Asked now and then while tokens are looked through; empty: nobody interrupts that.
  std::function<bool()> interrupted = {};
};

// Of data.validation_files: all of it is for validation.
inline DataOptions common_validation(DataOptions options) {
  options.files = std::move(options.validation_files);
  options.validation_files.clear();
  options.validation_fraction = 1;
  return options;
}

}  // namespace causeway::intra
