// Blob transfers without sockets: senders and receivers joined by hand.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/io_context.hpp>

#include "inter/blob/blob_receiver.h"
#include "inter/blob/blob_sender.h"
#include "tests/support/temporary_directory.h"

namespace causeway::inter {
using Chunks = std::vector<std::uint64_t>;

inline Bytes make_bytes(std::size_t size, unsigned seed = 1) {
  Bytes bytes(size);
  for (std::byte& byte : bytes) {
    seed = seed * 1664525 + 1013904223;
    byte = static_cast<std::byte>(seed >> 24);
  }
  return bytes;
}

inline constexpr std::size_t kChunks = 4;
inline constexpr std::uint64_t kSize = kChunks * kSmallChunkBytes - 1000;
inline constexpr std::uint64_t kNoLimit = kBlobBytesMax;

struct Node {
  explicit Node(std::uint64_t capacity = 1U << 30) : spool(directory.path(), capacity) {}
  test::TemporaryDirectory directory;
  Spool spool;
};

inline std::span<const std::byte> body_of(const Bytes& frame) {
  return std::span(frame).subspan(kFrameHeaderBytes);
}
inline FrameType type_of(const Bytes& frame) {
  return static_cast<FrameType>(frame[3]);
}

// One sender and what the receiving region knows of it: a link whose frames a test carries.
struct Link {
  Link(const Spool& from, const std::shared_ptr<Intake>& intake, const std::string& name)
      : sender(from, "receiver"),
        receiver(intake, name, [this](Bytes frame) { answers.push_back(std::move(frame)); }) {}

  void carry_answers() {
    for (; !answers.empty(); answers.pop_front()) {
      const auto body = body_of(answers.front());
      switch (type_of(answers.front())) {
        case FrameType::blob_fetch:
          sender.on_fetch(decode_fetch(body));
          break;
        case FrameType::blob_ack:
          sender.on_ack(decode_ack(body));
          break;
        case FrameType::blob_complete:
          sender.on_complete(decode_id(body));
          break;
        default:
          ASSERT_EQ(type_of(answers.front()), FrameType::blob_decline);
          declines.push_back(decode_decline(body).reason);
          sender.on_decline(decode_decline(body));
      }
    }
  }
  void carry_control() {
    while (const auto frame = sender.next_control()) {
      if (type_of(*frame) == FrameType::blob_offer) {
        receiver.on_offer(decode_id(body_of(*frame)));
      } else {
        receiver.on_abandon(decode_id(body_of(*frame)));
        ++abandoned;
      }
    }
  }
  // Draws one chunk for a connection; false if there is none.
  bool draw(ConnectionNumber connection) {
    carry_control();
    carry_answers();
    const auto frame = sender.next_chunk(connection);
    if (!frame) {
      carry_control();
      return false;
    }
    under_way[connection].push_back(*frame);
    drawn.push_back(decode_chunk(body_of(*frame)).chunk);
    return true;
  }
  void deliver(ConnectionNumber connection) {
    const Bytes frame = std::move(under_way[connection].front());
    under_way[connection].pop_front();
    receiver.on_chunk(decode_chunk(body_of(frame)));
  }
  bool step(ConnectionNumber connection = 1) {
    if (!draw(connection)) {
      return false;
    }
    deliver(connection);
    return true;
  }
  void lose(ConnectionNumber connection) {
    under_way[connection].clear();
    sender.on_connection_lost(connection);
  }
  void reconnect() {
    answers.clear();
    under_way.clear();
    sender.on_new_session();
  }

  BlobSender sender;
  std::deque<Bytes> answers;
  BlobReceiver receiver;
  std::map<ConnectionNumber, std::deque<Bytes>> under_way;
  Chunks drawn;
  std::vector<std::string> declines;
  int abandoned = 0;
};

class Transfer : public testing::Test {
 protected:
  std::unique_ptr<Link> link_from(const Spool& spool, const std::string& name) {
    return std::make_unique<Link>(spool, intake_, name);
  }
  std::shared_ptr<Intake> intake_over(Spool& spool, std::uint64_t limit = kNoLimit) {
    return std::make_shared<Intake>(
        context_.get_executor(), spool, limit,
        [this](const std::string& from, const BlobId&) { completed_.push_back(from); },
        context_.get_executor());
  }
  // Until nothing moves any more, hashing included.
  void run(std::initializer_list<Link*> links) {
    for (bool moved = true; moved;) {
      moved = false;
      for (Link* const link : links) {
        for (int chunks = 0; link->step(); ++chunks) {
          moved = true;
          ASSERT_LT(chunks, 100) << "endless transfer";
        }
        link->carry_answers();
      }
      context_.restart();
      moved = context_.poll() > 0 || moved;
    }
  }
  void run(Link& link) { run({&link}); }
  // For the hashes of this blob's chunks, where it arrives.
  void fill_disk_for_hashes(const BlobId& id) {
    to_.spool.expect(id);
    const auto hashes = to_.spool.partial(id)->map;
    std::filesystem::remove(hashes);
    std::filesystem::create_symlink("/dev/full", hashes);
  }

  asio::io_context context_;
  Node from_;
  Node to_;
  Bytes bytes_ = make_bytes(kSize);
  BlobId id_ = from_.spool.put(bytes_);
  std::vector<std::string> completed_;
  std::shared_ptr<Intake> intake_ = intake_over(to_.spool);
  std::unique_ptr<Link> link_ = link_from(from_.spool, "sender");
};

}  // namespace causeway::inter
