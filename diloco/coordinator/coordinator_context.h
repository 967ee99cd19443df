// What the parts of one coordinator share: its options, the disk, the protocol, and the end.
#pragma once

#include <functional>

#include <asio/any_io_executor.hpp>

#include "diloco/coordinator/protocol_driver.h"
#include "diloco/coordinator/region_directory.h"
#include "diloco/coordinator/region_status.h"
#include "inter/door/tls_door.h"

namespace causeway::diloco {

struct CoordinatorContext {
  asio::any_io_executor executor;
  const CoordinatorOptions& options;
  CoordinatorEnd& ending;
  RegionDirectory& directory;
  ProtocolDriver& driver;
  std::function<RegionStatus()> status;            // as it would be shown now
  std::function<void(const inter::BlobId&)> lose;  // a copy in the spool that was damaged is gone
  std::function<void(inter::TlsDoor::Guest)> on_follower = {};

  const RoundProtocol& protocol() const { return driver.protocol(); }
  // A line of events.jsonl.
  void add_event(const std::string& event, const std::string& peer, const std::string& text) const {
    directory.files().add_event(event, peer, text, protocol().version());
  }
};

}  // namespace causeway::diloco
