// Byte-pair encoding (Sennrich et al., 2016) of one word: its bytes become tokens, of which the
// neighbours with the merge of lowest rank become one token, again and again; of equal ranks the
// first.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace causeway::intra {

class BytePairs {
 public:
  static constexpr std::int32_t kNoToken = -1;

  struct Merge {
    std::int32_t left = 0, right = 0, whole = 0;
  };
  // `bytes`: the token of each byte, kNoToken where there is none. `merges` by rank. `words` become
  // one token without any merge.
  BytePairs(const std::array<std::int32_t, 256>& bytes, const std::vector<Merge>& merges,
            std::unordered_map<std::string, std::int32_t> words);

  // Appends the word's tokens. Returns false, and appends nothing, if a byte has no token.
  bool encode(std::string_view word, std::vector<std::int32_t>& tokens) const;

 private:
  struct Ranked {
    std::uint32_t rank;
    std::int32_t whole;
  };
  const Ranked* find(std::int32_t left, std::int32_t right) const;
  std::vector<std::int32_t> merge(std::vector<std::int32_t> tokens) const;

  std::array<std::int32_t, 256> bytes_;
  std::unordered_map<std::uint64_t, Ranked> merges_;  // by the pair
  std::unordered_map<std::string, std::int32_t> words_;
};

}  // namespace causeway::intra
