// Training data: the tokens of all files, and the train/validation split.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "diloco/maths/digest.h"
#include "intra/base/mapped_file.h"
#include "intra/data/data_options.h"
#include "intra/data/token_file.h"

namespace causeway::intra {

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

  std::uint64_t train_tokens() const { return train_tokens_; }
  std::uint64_t validation_tokens() const { return tokens_ - train_tokens_; }
  // Tokens [first, first + out.size()) of the training or validation part. Throw
  // Errc::data_changed for one outside the vocabulary, which was not there when they were opened.
  void read_train(std::uint64_t first, std::span<std::int32_t> out) const;
  void read_validation(std::uint64_t first, std::span<std::int32_t> out) const;
  // SHA-256 of the files' samples. Names do not matter.
  diloco::Digest sample() const;
  std::vector<DataFile> files() const;  // in the order in which they are read
  // Throws Errc::data_changed naming a file that somebody wrote to since it was opened. Looks at
  // kLooks files more at each call. What was only touched, or added to, is left with a warning, as
  // a sample shows.
  void check_unchanged();
  // Likewise if whoever opens the files now reads others than this, or more of them. Of all files.
  void check_is_current() const;
  static constexpr std::size_t kLooks = 64;

 private:
  struct Part {
    TokenFile file;
    std::uint64_t first = 0;  // of the data set's tokens
  };
  void read(std::uint64_t first, std::span<std::int32_t> out) const;

  std::vector<Part> parts_;
  std::size_t next_look_ = 0;  // a part
  std::uint64_t tokens_ = 0;
  std::uint64_t train_tokens_ = 0;
};

}  // namespace causeway::intra
