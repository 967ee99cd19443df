// Which of cuBLASLt's algorithms does which product on this machine: a file that the machine's
// processes share and that outlives them. What was written first for a product holds for all of
// them, so that two ranks that measure at one time take the same one, and later runs too.
//
//   a line each: XXH3 of the rest of it, machine, product, algorithm (8 numbers of 16 hex digits)
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace causeway::intra::cuda {

class KeptAlgorithms {
 public:
  // As cublasLtMatmulAlgo_t has it: for the same version of the library.
  using Algorithm = std::array<std::uint64_t, 8>;

  // `machine`: what the choice depends on besides the product. Without a file, or where it cannot
  // be written, nothing is kept, which the log says. Throws nothing.
  KeptAlgorithms(std::filesystem::path file, std::string machine);

  // Whether what is given to keep() will be there later.
  bool can_keep() const { return can_keep_; }
  // The first that was kept for the product and is `usable`.
  std::optional<Algorithm> find(const std::string& product,
                                const std::function<bool(const Algorithm&)>& usable);
  void keep(const std::string& product, const Algorithm& algorithm);

  // The user's: causeway/products in $XDG_CACHE_HOME, or in ~/.cache. Empty if neither is known.
  static std::filesystem::path default_file();

 private:
  void give_up(const std::string& why);
  std::string content();

  std::filesystem::path file_;
  std::string machine_;
  bool can_keep_ = false, said_damaged_ = false;
};

}  // namespace causeway::intra::cuda
