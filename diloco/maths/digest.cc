#include "diloco/maths/digest.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <initializer_list>
#include <span>

#include "compression/base/parallel.h"
#include "diloco/maths/sha256_lanes.h"
#include "inter/base/hash.h"
#include "inter/base/text.h"

namespace causeway::diloco {
namespace {

static_assert(std::endian::native == std::endian::little, "digests are over little-endian floats");

constexpr std::byte kLeafTag{
    0x00};  // Part of the format: do not renumber. Two tags, so that no leaf can
constexpr std::byte kInnerTag{0x01};  // be passed off as an inner node (RFC 6962, section 2.1).

Digest hash_of(inter::Sha256& hash, std::initializer_list<std::span<const std::byte>> parts) {
  for (const std::span<const std::byte> part : parts) hash.update(part);
  return hash.finish();
}

}  // namespace

Digest sha256(std::span<const std::byte> bytes) {
  inter::Sha256 hash;
  return hash_of(hash, {bytes});
}

std::string to_hex(std::span<const std::uint8_t> bytes) {
  return inter::hex(bytes);
}

std::optional<Digest> from_hex(std::string_view text) {
  Digest digest{};
  if (text.size() != 2 * digest.size()) return std::nullopt;
  for (std::size_t i = 0; i < digest.size(); ++i) {
    const auto digit = [&](std::size_t at) {
      return std::string_view("0123456789abcdef").find(text[at]);
    };
    const std::size_t high = digit(2 * i), low = digit(2 * i + 1);
    if (high > 15 || low > 15) return std::nullopt;
    digest[i] = static_cast<std::uint8_t>(16 * high + low);
  }
  return digest;
}

namespace {

// A task of one thread: looking up the algorithm is little beside it.
constexpr std::size_t kLeavesOfATask = 32;

Digest leaf_of(inter::Sha256& hash, std::span<const float> values) {
  return hash_of(hash, {{&kLeafTag, 1}, std::as_bytes(values)});
}

// By its bits: -0 is another number.
bool is_zero(std::span<const float> values) {
  return std::ranges::all_of(values,
                             [](float value) { return std::bit_cast<std::uint32_t>(value) == 0; });
}

// Hashes kSha256Lanes leaves at a time where the CPU can, and what is left over one by one.
class LeafHasher {
 public:
  void add(std::span<const float> values, Digest& digest) {
    if (!has_sha256_lanes()) {
      digest = leaf_of(hash_, values);
      return;
    }
    leaves_[waiting_] = values.data();
    digests_[waiting_] = &digest;
    if (++waiting_ < kSha256Lanes) return;
    hash_leaves(leaves_, digests_);
    waiting_ = 0;
  }
  void finish() {
    for (std::size_t i = 0; i < waiting_; ++i)
      *digests_[i] = leaf_of(hash_, std::span(leaves_[i], kLeafElements));
  }

 private:
  inter::Sha256 hash_;
  const float* leaves_[kSha256Lanes] = {};
  Digest* digests_[kSha256Lanes] = {};
  std::size_t waiting_ = 0;
};

}  // namespace

std::vector<Digest> merkle_leaves(std::span<const float> values) {
  assert(values.size() % kLeafElements == 0);
  // A momentum is all zeros when a run begins, and without one it stays so.
  static const Digest zero_leaf = [] {
    inter::Sha256 hash;
    return leaf_of(hash, std::vector<float>(kLeafElements));
  }();
  std::vector<Digest> leaves(values.size() / kLeafElements);
  const std::size_t tasks = (leaves.size() + kLeavesOfATask - 1) / kLeavesOfATask;
  const auto task = [&](std::size_t index) {
    LeafHasher hasher;
    const std::size_t end = std::min((index + 1) * kLeavesOfATask, leaves.size());
    for (std::size_t leaf = index * kLeavesOfATask; leaf < end; ++leaf) {
      const auto elements = values.subspan(leaf * kLeafElements, kLeafElements);
      if (is_zero(elements)) {
        leaves[leaf] = zero_leaf;
      } else {
        hasher.add(elements, leaves[leaf]);
      }
    }
    hasher.finish();
    return true;
  };
  compression::first_failure(tasks, task, 1);
  return leaves;
}

Digest merkle_root(std::span<const Digest> leaves) {
  if (leaves.empty()) return sha256({});
  inter::Sha256 hash;
  std::vector<Digest> level(leaves.begin(), leaves.end());
  while (level.size() > 1) {
    const std::size_t pairs = level.size() / 2;
    for (std::size_t i = 0; i < pairs; ++i) {
      level[i] = hash_of(hash, {{&kInnerTag, 1},
                                std::as_bytes(std::span(level[2 * i])),
                                std::as_bytes(std::span(level[2 * i + 1]))});
    }
    if (level.size() % 2 == 1) level[pairs] = level.back();
    level.resize(pairs + level.size() % 2);
  }
  return level.front();
}

Digest state_digest(const Digest& anchor_root, const Digest& momentum_root) {
  inter::Sha256 hash;
  return hash_of(hash,
                 {std::as_bytes(std::span(anchor_root)), std::as_bytes(std::span(momentum_root))});
}

Digest chain_start(const std::string& run_id) {
  return sha256(std::as_bytes(std::span(run_id)));
}

Digest chain_next(const Digest& previous, const std::string& content) {
  std::string bytes(reinterpret_cast<const char*>(previous.data()), previous.size());
  bytes += content;
  return sha256(std::as_bytes(std::span(bytes)));
}

namespace {

constexpr std::size_t kDigits = 12;

}  // namespace

bool same_data(const DataDigest& one, const DataDigest& other) {
  if (one.whole && other.whole) return *one.whole == *other.whole;
  return one.sample == other.sample;
}

std::string short_name(const DataDigest& data) {
  if (data.whole) return to_hex(*data.whole).substr(0, kDigits);
  return "a sample: " + to_hex(data.sample).substr(0, kDigits);
}

}  // namespace causeway::diloco
