// The regions that a follower may ask, and its links to them: each is opened when it is needed, and
// one that does not answer is left alone for a while.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/steady_timer.hpp>

#include "diloco/follow/follower_link.h"
#include "inter/base/retry.h"
#include "inter/blob/spool.h"
#include "inter/mesh/mesh.h"
#include "inter/tls/credential_watch.h"
#include "inter/tls/pki.h"

namespace causeway::run {

class FollowedRegions {
 public:
  struct Address {
    std::string region;
    inter::Endpoint endpoint;  // without a host it cannot be asked
  };

  // `self`: as certified. `addresses`: the nearest first. Throws std::system_error naming a
  // credential that cannot be used.
  FollowedRegions(asio::any_io_executor executor, std::string self, inter::Credentials credentials,
                  const std::vector<Address>& addresses);

  // Regions that the log names and nobody configured can be asked too.
  void know(const std::vector<Address>& addresses);

  // The link that this gave last, while it stands; then one to the first that answers, in their
  // order. Waits as long as none does. Throws inter::LinkError (Errc::refused) if most refuse and
  // the rest is silent.
  asio::awaitable<diloco::FollowerLink*> nearest();
  // Null: it does not answer now.
  asio::awaitable<diloco::FollowerLink*> link(const std::string& region);
  // Into the spool: from the region of `first`, or else from any. False: nobody has it. Throws
  // inter::LinkError if `first` fails, and what the spool throws.
  asio::awaitable<bool> fetch(diloco::FollowerLink& first, inter::BlobId blob, inter::Spool& spool);
  // From that region alone.
  asio::awaitable<bool> fetch_from(diloco::FollowerLink& link, inter::BlobId blob,
                                   inter::Spool& spool);
  // Those that sent other bytes than they were asked for since the last call.
  void drop_liars();
  // What it said or did not say makes its link useless. All others come before it from here on.
  void drop(const std::string& region, const std::string& why);

  std::vector<std::string> names() const;  // in their order
  // Those of `regions` that can be asked, in their order: who was dropped comes last.
  std::vector<std::string> in_order(const std::vector<std::string>& regions) const;
  const inter::TlsContext& context() const { return context_; }
  std::uint64_t received_bytes() const;  // so far, from all
  std::string connected() const;         // whom the last nearest() gave; empty: nobody

 private:
  struct Place {
    Address address;
    std::unique_ptr<diloco::FollowerLink> link;
    inter::Backoff backoff;
    std::chrono::steady_clock::time_point not_before{};
    std::string refusal;  // the last word of one that refuses
    inter::LogThrottle failures;
  };
  asio::awaitable<diloco::FollowerLink*> open(Place& place);
  Place* find(const std::string& region);
  void throw_if_most_refuse() const;

  asio::any_io_executor executor_;
  std::string self_;
  inter::Credentials credentials_;
  inter::CredentialWatch watch_;
  inter::TlsContext context_;
  std::vector<std::unique_ptr<Place>> places_;
  asio::steady_timer retry_;
  std::shared_ptr<inter::SmallSegments> small_segments_ = std::make_shared<inter::SmallSegments>();
  std::uint64_t received_before_ = 0;  // over links that are gone
  std::string connected_;
  std::set<std::string> liars_;
};

}  // namespace causeway::run
