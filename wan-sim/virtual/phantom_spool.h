// Blobs that a region of a virtual run holds: names and counts, no bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "inter/frame/blob.h"

namespace causeway::wan_sim {

class PhantomSpool {
 public:
  bool has(const inter::BlobId& id) const {
    const auto found = received_.find(id);
    return found != received_.end() && found->second == id.size_bytes;
  }
  std::uint64_t received_bytes(const inter::BlobId& id) const {
    const auto found = received_.find(id);
    return found == received_.end() ? 0 : found->second;
  }
  void put(const inter::BlobId& id) { received_[id] = id.size_bytes; }
  // True if that completed it.
  bool append(const inter::BlobId& id, std::uint64_t bytes) {
    std::uint64_t& received = received_[id];
    const bool lacked = received < id.size_bytes;
    received = std::min(received + bytes, id.size_bytes);
    return lacked && received == id.size_bytes;
  }
  void remove(const inter::BlobId& id) { received_.erase(id); }
  void clear() { received_.clear(); }

 private:
  std::map<inter::BlobId, std::uint64_t> received_;
};

}  // namespace causeway::wan_sim
