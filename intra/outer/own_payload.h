// What a region contributed to a round: the payload's bytes and their hash, which a thread of its
// own computes while the worker goes on.
#pragma once

#include <cstddef>
#include <future>
#include <span>

#include "diloco/files/sealed_bytes.h"
#include "diloco/maths/digest.h"

namespace causeway::intra {

class OwnPayload {
 public:
  OwnPayload() = default;  // none
  explicit OwnPayload(diloco::SealedBytes bytes);

  bool empty() const { return sealed_.empty(); }
  const diloco::SealedBytes& sealed() const { return sealed_; }
  std::span<const std::byte> bytes() const { return sealed_.bytes(); }
  // SHA-256; waits for it. There must be a payload.
  const diloco::Digest& hash() const { return hash_.get(); }

 private:
  diloco::SealedBytes sealed_;
  std::shared_future<diloco::Digest> hash_;
};

}  // namespace causeway::intra
