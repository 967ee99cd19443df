#include "intra/published/byte_pairs.h"

#include <queue>
#include <tuple>

namespace causeway::intra {
namespace {

constexpr std::size_t kEnd = static_cast<std::size_t>(-1);

std::uint64_t key(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

// A token of the word and its neighbours; one that was merged into its left neighbour is dead.
struct Piece {
  std::int32_t token;
  std::size_t previous, next;
  bool dead = false;
};

// Two pieces that could become one, as they were when this was found.
struct Candidate {
  std::uint32_t rank;
  std::size_t place;  // of the left one
  std::int32_t left, right, whole;
  bool operator>(const Candidate& other) const {
    return std::tie(rank, place) > std::tie(other.rank, other.place);
  }
};

using Candidates = std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>>;

}  // namespace

BytePairs::BytePairs(const std::array<std::int32_t, 256>& bytes, const std::vector<Merge>& merges,
                     std::unordered_map<std::string, std::int32_t> words)
    : bytes_(bytes), words_(std::move(words)) {
  std::uint32_t rank = 0;
  for (const Merge& merge : merges)
    merges_.insert_or_assign(key(merge.left, merge.right), Ranked{rank++, merge.whole});
}

bool BytePairs::encode(std::string_view word, std::vector<std::int32_t>& tokens) const {
  if (!words_.empty()) {
    if (const auto whole = words_.find(std::string(word)); whole != words_.end()) {
      tokens.push_back(whole->second);
      return true;
    }
  }
  std::vector<std::int32_t> pieces;
  for (const char byte : word) {
    pieces.push_back(bytes_[static_cast<unsigned char>(byte)]);
    if (pieces.back() == kNoToken) return false;
  }
  pieces = merge(std::move(pieces));
  tokens.insert(tokens.end(), pieces.begin(), pieces.end());
  return true;
}

const BytePairs::Ranked* BytePairs::find(std::int32_t left, std::int32_t right) const {
  const auto found = merges_.find(key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

// A heap, because a word of a long text without spaces is long.
std::vector<std::int32_t> BytePairs::merge(std::vector<std::int32_t> tokens) const {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    pieces.push_back({tokens[i], i == 0 ? kEnd : i - 1, i + 1 == tokens.size() ? kEnd : i + 1});
  Candidates candidates;
  const auto consider = [&](std::size_t left) {
    if (left == kEnd || pieces[left].next == kEnd) return;
    const std::int32_t a = pieces[left].token, b = pieces[pieces[left].next].token;
    if (const Ranked* merge = find(a, b)) candidates.push({merge->rank, left, a, b, merge->whole});
  };
  for (std::size_t i = 0; i < pieces.size(); ++i) consider(i);
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    Piece& left = pieces[best.place];
    if (left.dead || left.token != best.left || left.next == kEnd) continue;
    Piece& right = pieces[left.next];
    if (right.token != best.right) continue;
    left.token = best.whole;
    right.dead = true;
    left.next = right.next;
    if (left.next != kEnd) pieces[left.next].previous = best.place;
    consider(left.previous);
    consider(best.place);
  }
  tokens.clear();
  for (const Piece& piece : pieces) {
    if (!piece.dead) tokens.push_back(piece.token);
  }
  return tokens;
}

}  // namespace causeway::intra
