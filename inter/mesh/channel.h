// What a coordinator needs of its links, so that the same coordinator runs over TLS (Mesh) and in
// virtual time. What comes back is told to a MeshHandler (mesh.h). A region that is not a peer (any
// more) is treated as one that is down for ever.
#pragma once

#include <string>

#include "inter/frame/blob.h"

namespace causeway::inter {

class Channel {
 public:
  virtual ~Channel() = default;

  // Directly, or by way of a third region.
  virtual bool is_up(const std::string& peer) const = 0;
  // Queues a control message. Silently dropped if the peer is down: state is exchanged anew when it
  // comes up.
  virtual void send(const std::string& peer, std::string message) = 0;
  // Streams a blob that this side holds, in the order of the calls, from the first byte the peer
  // lacks as far as known (0 at first). Stays queued while there is no way to the peer and goes on
  // where it ended; a blob removed meanwhile is skipped.
  virtual void push_blob(const std::string& peer, const BlobId& id) = 0;
  // Asks a peer to stream a blob from where our copy ends. A peer that lacks it ignores this.
  // Silently dropped if there is no direct link to the peer, or when all of the blob is here or
  // already arriving from that peer.
  virtual void fetch_blob(const std::string& peer, const BlobId& id) = 0;
};

}  // namespace causeway::inter
