#include "diloco/maths/digest.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <span>

#include "compression/base/parallel.h"
#include "inter/base/hash.h"
#include "inter/base/hash_tree.h"
#include "inter/base/text.h"

namespace causeway::diloco {
namespace {

static_assert(std::endian::native == std::endian::little, "digests are over little-endian floats");
static_assert(kLeafElements * sizeof(float) == inter::kLeafBytes);

}  // namespace

Digest sha256(std::span<const std::byte> bytes) {
  inter::Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

Digest tree_hash(std::span<const std::byte> bytes) {
  return inter::tree_hash(bytes);
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

// By its bits: -0 is another number.
bool is_zero(std::span<const float> values) {
  return std::ranges::all_of(values,
                             [](float value) { return std::bit_cast<std::uint32_t>(value) == 0; });
}

}  // namespace

void hash_leaves(std::span<const float> values, std::span<Digest> leaves) {
  assert(values.size() == leaves.size() * kLeafElements);
  // A momentum is all zeros when a run begins, and without one it stays so.
  static const Digest zero_leaf = inter::tree_hash(std::vector<std::byte>(inter::kLeafBytes));
  inter::LeafHasher hasher;
  for (Digest& leaf : leaves) {
    const auto elements = values.first(kLeafElements);
    if (is_zero(elements)) {
      leaf = zero_leaf;
    } else {
      hasher.add(std::as_bytes(elements), leaf);
    }
    values = values.subspan(kLeafElements);
  }
  hasher.finish();
}

std::vector<Digest> merkle_leaves(std::span<const float> values) {
  assert(values.size() % kLeafElements == 0);
  std::vector<Digest> leaves(values.size() / kLeafElements);
  const std::size_t tasks = (leaves.size() + kLeavesOfATask - 1) / kLeavesOfATask;
  const auto task = [&](std::size_t index) {
    const std::size_t first = index * kLeavesOfATask;
    const std::size_t count = std::min(kLeavesOfATask, leaves.size() - first);
    hash_leaves(values.subspan(first * kLeafElements, count * kLeafElements),
                std::span(leaves).subspan(first, count));
    return true;
  };
  compression::first_failure(tasks, task, 1);
  return leaves;
}

Digest merkle_root(std::span<const Digest> leaves) {
  return inter::tree_root({leaves.begin(), leaves.end()});
}

Digest state_digest(const Digest& anchor_root, const Digest& momentum_root) {
  inter::Sha256 hash;
  hash.update(std::as_bytes(std::span(anchor_root)));
  hash.update(std::as_bytes(std::span(momentum_root)));
  return hash.finish();
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
