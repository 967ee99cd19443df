// The links of a Cluster as they are: inter's spools (on disk), frames, senders and receivers of
// blobs, with real bytes, between regions in virtual time. Per pair of regions a session of a
// control connection and two data connections; these are lost now and then, and a process that is
// killed may leave a torn file.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>

#include <asio/io_context.hpp>

#include "diloco/region/protocol_options.h"
#include "inter/blob/blob_receiver.h"
#include "inter/blob/blob_sender.h"
#include "tests/support/temporary_directory.h"

namespace causeway::diloco::testing {

class ClusterLinks {
 public:
  // What the cluster does for them.
  struct Host {
    std::function<Time()> now;
    std::function<void(Time time, std::function<void()> action)> at;
    std::function<Time(const std::string& region)> paused_until;
    std::function<Time(const std::string& region)> per_chunk;  // what its sending takes besides
    std::function<bool(const std::string& from, const std::string& to)> deaf;
    std::function<void(const std::string& region, const inter::BlobId& blob)> on_blob;
    std::function<void(const std::string& region, const inter::BlobId& blob, std::uint64_t bytes)>
        on_progress;
  };

  // `spool_bytes`: 0: there is room for everything.
  ClusterLinks(Host host, std::uint64_t seed, std::uint64_t spool_bytes);

  // A process begins with what is on its disk: the complete blobs.
  std::set<inter::BlobId> start(const std::string& region);
  void kill(const std::string& region);  // no session of it may be left
  void wipe(const std::string& region);  // after kill: the disk too
  void connect(const std::string& a, const std::string& b);
  void disconnect(const std::string& a, const std::string& b);

  // Bytes that `content` stands for, on the region's disk.
  inter::BlobId put(const std::string& region, const std::string& content, std::uint64_t size);
  void remove(const std::string& region, const inter::BlobId& blob);
  void push(const std::string& from, const std::string& to, const inter::BlobId& blob);
  void fetch(const std::string& region, const std::string& from, const inter::BlobId& blob);
  void forgo(const std::string& region, const std::string& from, const inter::BlobId& blob);

  const inter::Spool& spool(const std::string& region) const { return *sites_.at(region).spool; }
  std::uint64_t chunks_sent() const { return chunks_sent_; }

 private:
  static constexpr std::size_t kLanes = 3;  // control, data, data

  struct Site {
    test::TemporaryDirectory directory{test::in_memory()};
    std::optional<inter::Spool> spool;  // set: the process runs
    std::shared_ptr<inter::Intake> intake;
    std::map<std::string, inter::BlobSender> outgoing;
    std::uint64_t life = 0;
  };
  // One direction of a connection.
  struct Stream {
    inter::FrameParser parser{1U << 20};
    Time last_arrival{0};
    unsigned chunks_under_way = 0;
  };
  struct Session {
    std::uint64_t life = 0;
    std::array<inter::ConnectionNumber, kLanes> numbers{};      // of the connections, anew if lost
    std::map<std::string, std::array<Stream, kLanes>> streams;  // by sender
    std::map<std::string, std::unique_ptr<inter::BlobReceiver>> receivers;
  };
  struct Way {
    std::string from, to;
    std::size_t lane = 0;
  };

  Session* session(const std::string& a, const std::string& b);
  inter::BlobSender& sender(const std::string& from, const std::string& to);
  void send(const Way& way, inter::Bytes frame);
  void arrive(const Way& way, std::uint64_t life, inter::ConnectionNumber number,
              const inter::Bytes& frame);
  void handle(const Way& way, const inter::FrameView& frame);
  void handle_control(const Way& way, const inter::FrameView& frame);
  void pump(const std::string& from, const std::string& to);
  void lose(const std::string& a, const std::string& b, std::size_t lane);
  void settle();
  void tear(const std::string& region);
  Time random_time(std::int64_t min_ms, std::int64_t max_ms);

  Host host_;
  std::mt19937_64 random_;
  std::uint64_t spool_bytes_;
  asio::io_context context_;
  std::map<std::string, Site> sites_;
  std::map<std::pair<std::string, std::string>, Session> sessions_;
  std::uint64_t lives_ = 0;
  std::uint64_t chunks_sent_ = 0;
};

}  // namespace causeway::diloco::testing
