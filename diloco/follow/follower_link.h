// A follower's connection to a region: it asks, the other side answers. One coroutine at a time.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>

#include "diloco/follow/follow_messages.h"
#include "inter/blob/spool.h"
#include "inter/mesh/connection.h"
#include "inter/mesh/mesh.h"
#include "inter/mesh/segment_sizes.h"
#include "inter/tls/tls.h"

namespace causeway::diloco {

class FollowerLink {
 public:
  struct Settings {
    std::string self;    // as certified
    std::string region;  // who must be there
    inter::Endpoint address;
    inter::TlsContext context;
    std::chrono::milliseconds open_deadline{10'000};
    // Where large packets seem to be lost, as earlier links found; after one that stood for so long
    // without them, large ones are tried again.
    std::shared_ptr<inter::SmallSegments> small_segments = std::make_shared<inter::SmallSegments>();
    std::chrono::milliseconds small_segments_for{600'000};
  };
  ~FollowerLink();
  FollowerLink(const FollowerLink&) = delete;
  FollowerLink& operator=(const FollowerLink&) = delete;

  // What follows throws inter::LinkError, after which the link is of no use.
  // Connects and greets.
  static asio::awaitable<std::unique_ptr<FollowerLink>> open(asio::any_io_executor executor,
                                                             Settings settings);
  asio::awaitable<FollowerAnswer> ask(FollowerQuestion question);
  // Into the spool, from where our copy ends; complete and checked there. False: the region does
  // not have it. Throws what Spool::write() and check() throw, too: after Errc::hash_mismatch the
  // link may go on.
  asio::awaitable<bool> fetch(inter::BlobId id, inter::Spool& spool);

  const std::string& region() const { return settings_.region; }
  void close();
  std::uint64_t received_bytes() const { return traffic_->rx_bytes; }

 private:
  FollowerLink(asio::any_io_executor executor, Settings settings)
      : executor_(std::move(executor)), settings_(std::move(settings)) {}
  asio::awaitable<void> connect();
  asio::awaitable<void> connect_to(asio::ip::tcp::endpoint endpoint);
  asio::awaitable<void> greet();
  asio::awaitable<inter::FrameView> read();

  asio::any_io_executor executor_;
  Settings settings_;
  std::unique_ptr<inter::Connection> connection_;
  asio::ip::tcp::endpoint endpoint_;                                  // its other end
  std::optional<std::chrono::steady_clock::time_point> small_since_;  // it stands, with small ones
  std::shared_ptr<inter::Traffic> traffic_ = std::make_shared<inter::Traffic>();
};

}  // namespace causeway::diloco
