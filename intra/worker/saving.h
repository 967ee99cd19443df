// Something that is written now and then while a region trains. A disk that is full, read-only or
// failing must not end the training: it is tried again at the next occasion.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace causeway::intra {

class Saving {
 public:
  // `what` is written, in the words of the log.
  explicit Saving(std::string what) : what_(std::move(what)) {}

  // Whether `write` returned. False if the disk refused; says so at the first refusal in a row, the
  // second, the fourth and so on, and when it works again. Throws all other errors.
  bool attempt(const std::function<void()>& write);

 private:
  std::string what_;
  std::uint64_t refusals_ = 0;  // in a row
};

}  // namespace causeway::intra
