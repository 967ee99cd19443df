// What regions said in one step, under their signatures.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "diloco/follow/follow_messages.h"
#include "diloco/log/messages.h"
#include "inter/tls/tls.h"

namespace causeway::run {

class WeightsVotes {
 public:
  // `trusted`: whose signatures count; `needed`: of how many.
  WeightsVotes(std::vector<std::string> trusted, std::size_t needed)
      : trusted_(std::move(trusted)), needed_(needed) {}

  // Throws inter::LinkError if a signature is not the region's.
  void add(const std::string& region, const diloco::FollowerAnswer& answer,
           const inter::TlsContext& context);

  struct Agreed {
    diloco::SignedWeights weights;
    std::map<std::string, std::string> signatures;  // by region
  };
  // The newest version whose image enough have signed. None behind `ours`, unless as many say that
  // the run went back behind it.
  std::optional<Agreed> newest(const std::optional<diloco::SignedWeights>& ours) const;
  // Those, if enough have signed them.
  std::optional<Agreed> agreed(const diloco::SignedWeights& weights) const;
  // Who has signed what of the newest versions, for somebody who waits.
  std::string summary() const;
  // Where enough say that the run ended.
  std::optional<diloco::Applied> end() const;

  const std::vector<std::string>& trusted() const { return trusted_; }

 private:
  std::vector<std::string> trusted_;
  std::size_t needed_;
  std::map<std::string, std::vector<diloco::SignedWeights>> said_;
  std::map<std::string, diloco::Applied> ends_;
};

}  // namespace causeway::run
