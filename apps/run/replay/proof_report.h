// What a check of proofs found, told line by line and counted by region.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>

#include "apps/run/replay/proof_check.h"
#include "diloco/log/record.h"

namespace causeway::run {

// `text`, that a checked region may have written, on one line and cut after so many bytes.
std::string quoted_line(const std::string& text, std::size_t most);

struct Finding {
  enum class Kind { same, differs, unchecked };
  Kind kind = Kind::same;
  std::string text;
};

class ProofReport {
 public:
  explicit ProofReport(const std::function<void(const std::string&)>& say) : say_(say) {}

  void count(const diloco::Participant& listed);
  void note_settings(const std::string& region, const std::string& differences);
  // Of one that was drawn.
  void note(const diloco::ContributionKey& key, const Finding& finding);
  // Tells what came of all, by region.
  ProofCheck end();

 private:
  struct Tally {
    std::size_t listed = 0, proven = 0, same = 0, differ = 0, unchecked = 0;
    std::string results() const;
    std::size_t drawn() const { return same + differ + unchecked; }
    void add(const Tally& other);
  };
  void tell(const std::string& region, const Tally& tally);

  const std::function<void(const std::string&)>& say_;
  std::map<std::string, Tally> tallies_;
  ProofCheck result_;
};

}  // namespace causeway::run
