// One region's end of the links in virtual time.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "inter/mesh/mesh.h"
#include "inter/route/router.h"
#include "wan-sim/virtual/internet.h"

namespace causeway::wan_sim {

class Internet::Site : public inter::Channel {
 public:
  ~Site() override;

  bool is_up(const std::string& peer) const override { return up_.contains(peer); }
  void send(const std::string& peer, std::string message) override;
  void push_blob(const std::string& peer, const inter::BlobId& id) override;
  void fetch_blob(const std::string& peer, const inter::BlobId& id) override;

 private:
  friend class Internet;
  Site(Internet& internet, std::string region, std::string greeting, PhantomSpool& spool,
       inter::MeshHandler& handler)
      : internet_(internet),
        region_(std::move(region)),
        greeting_(std::move(greeting)),
        spool_(spool),
        handler_(handler),
        router_(region_, internet.options_.topology) {}

  void learn_links();
  void push_directly(const std::string& peer, const inter::BlobId& id);
  void pass_on(const inter::BlobId& id, const std::string& to);
  void on_completed(const std::string& from, const inter::BlobId& id);

  Internet& internet_;
  std::string region_, greeting_;
  PhantomSpool& spool_;
  inter::MeshHandler& handler_;
  inter::Router router_;
  bool links_known_ = false;  // to the router, as they are now
  std::set<std::string> up_;
  std::map<std::string, std::deque<inter::BlobId>> pushes_;  // to each peer, not yet sent
};

}  // namespace causeway::wan_sim
