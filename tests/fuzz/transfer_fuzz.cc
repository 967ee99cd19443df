// Any order of control frames, chunks (right and wrong), losses and restarts at both halves of a
// link's transfers. What is complete in a spool has the content of its name, what the sender gives
// out is the blob's, and an honest exchange afterwards completes the blob.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <optional>
#include <vector>

#include <spdlog/spdlog.h>
#include <asio/io_context.hpp>

#include "inter/base/hash_tree.h"
#include "inter/blob/blob_receiver.h"
#include "inter/blob/blob_sender.h"

namespace {

namespace fs = std::filesystem;
using namespace causeway::inter;

constexpr std::uint64_t kSpoolBytes = 1U << 20;
constexpr std::array<std::size_t, 3> kSizes{0, 700, 2 * kSmallChunkBytes + 11};

Bytes content_of(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * i >> 3);
  return bytes;
}

std::span<const std::byte> body_of(const Bytes& frame) {
  return std::span(frame).subspan(kFrameHeaderBytes);
}

// In memory, for this process alone: what the sender has, and where the receiver's spool is.
struct Disk {
  Disk()
      : path("/dev/shm/transfer-fuzz-" + std::to_string(::getpid())),
        from(path / "from", kSpoolBytes) {
    for (const std::size_t size : kSizes) ids.push_back(from.put(content_of(size)));
    ids.push_back({{1, 2, 3}, 100'000});  // nobody has it
  }
  ~Disk() { fs::remove_all(path); }
  fs::path path;
  Spool from;
  std::vector<BlobId> ids;
};

// Takes what is left of the input for granted once it is used up.
class Input {
 public:
  explicit Input(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  std::uint8_t next() {
    if (bytes_.empty()) return 0;
    const std::uint8_t value = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return value;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

class Transfers {
 public:
  explicit Transfers(const Disk& disk)
      : from_(disk.from), ids_(disk.ids), directory_(disk.path / "to") {
    fs::remove_all(directory_);
    restart();
  }

  void step(Input& input) {
    const std::uint8_t what = input.next();
    const BlobId& id = ids_[input.next() % ids_.size()];
    const std::uint64_t chunk = input.next() % chunk_count(id.size_bytes);
    switch (what % 18) {
      case 0:
        return sender_->push(id);
      case 1:
        return sender_->on_fetch(fetch_of(id, chunk, input));
      case 2:
        sender_->on_ack({id, chunk});
        return;
      case 3:
        return sender_->on_complete(id);
      case 4:
        return sender_->on_decline({id, chunk % 2 == 0 ? "no" : ""});
      case 5:
        return sender_->on_new_session();
      case 6:
        return sender_->on_connection_lost(chunk);
      case 7:
        return receiver_->on_offer(id);
      case 8:
        return receiver_->on_abandon(id);
      case 9:
        return receiver_->want(id);
      case 10:
        return give(id, chunk, input.next() % 4 == 0);
      case 11:
        return spool_->remove(id);
      case 12:
        return restart();
      case 13:
        return deliver_answer();
      case 14:
        return receiver_->forgo(id);
      default:
        return draw(chunk);
    }
  }
  void settle() {
    context_.restart();
    context_.poll();
  }
  void check() {
    settle();
    for (const BlobId& id : spool_->complete()) {
      if (tree_hash(spool_->read(id, 0, id.size_bytes)) != id.hash) std::abort();
    }
  }
  // After which nothing is wrong any more.
  void converge() {
    answers_.clear();
    receiver_.emplace(intake_, "from",
                      [this](Bytes frame) { answers_.push_back(std::move(frame)); });
    sender_->on_new_session();
    const BlobId& id = ids_[2];
    for (int i = 0; i < 200 && !spool_->has(id); ++i) {
      if (i % 50 == 0) sender_->push(id);
      if (i % 50 == 0) receiver_->want(id);  // it may have been forgone
      while (const auto frame = sender_->next_control()) control(*frame);
      draw(0);
      settle();
      while (!answers_.empty()) deliver_answer();
    }
    if (!spool_->has(id)) std::abort();
  }

 private:
  void restart() {
    receiver_.reset();
    if (intake_) intake_->stop();
    intake_.reset();
    spool_.emplace(directory_, kSpoolBytes);
    intake_ = std::make_shared<Intake>(
        context_.get_executor(), *spool_, kSpoolBytes, [](const std::string&, const BlobId&) {},
        context_.get_executor());
    receiver_.emplace(intake_, "from",
                      [this](Bytes frame) { answers_.push_back(std::move(frame)); });
    sender_.emplace(from_, "to");
    answers_.clear();
  }
  static BlobFetch fetch_of(const BlobId& id, std::uint64_t chunk, Input& input) {
    const std::uint8_t bits = input.next();
    BlobFetch fetch{id, bits % 2 == 0 ? Order::ascending : Order::descending, chunk,
                    ChunkMap(chunk_count(id.size_bytes))};
    for (std::uint64_t i = 0; i < fetch.held.size(); ++i) {
      if ((bits >> (1 + i % 7) & 1) != 0) fetch.held.insert(i);
    }
    return fetch;
  }
  void give(const BlobId& id, std::uint64_t chunk, bool wrong) {
    Bytes frame = encode_chunk(id, chunk);
    const auto bytes = std::span(frame).last(chunk_bytes(id, chunk));
    const Bytes all = content_of(id.size_bytes);
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(chunk_offset(id, chunk)), bytes.size(),
                bytes.begin());
    if (wrong && !bytes.empty()) bytes[0] ^= std::byte{1};
    receiver_->on_chunk(decode_chunk(body_of(frame)));
  }
  void draw(ConnectionNumber connection) {
    const auto frame = sender_->next_chunk(connection);
    if (!frame) return;
    const BlobChunk chunk = decode_chunk(body_of(*frame));
    const Bytes all = content_of(chunk.id.size_bytes);
    const auto expected = std::span(all).subspan(chunk_offset(chunk.id, chunk.chunk));
    if (!std::equal(chunk.bytes.begin(), chunk.bytes.end(), expected.begin())) std::abort();
    receiver_->on_chunk(chunk);
  }
  void control(const Bytes& frame) {
    const auto type = static_cast<FrameType>(frame[3]);
    if (type == FrameType::blob_offer) receiver_->on_offer(decode_id(body_of(frame)));
    if (type == FrameType::blob_abandon) receiver_->on_abandon(decode_id(body_of(frame)));
  }
  void deliver_answer() {
    if (answers_.empty()) return;
    const Bytes frame = std::move(answers_.front());
    answers_.pop_front();
    switch (static_cast<FrameType>(frame[3])) {
      case FrameType::blob_fetch:
        return sender_->on_fetch(decode_fetch(body_of(frame)));
      case FrameType::blob_ack:
        sender_->on_ack(decode_ack(body_of(frame)));
        return;
      case FrameType::blob_complete:
        return sender_->on_complete(decode_id(body_of(frame)));
      case FrameType::blob_decline:
        return sender_->on_decline(decode_decline(body_of(frame)));
      default:
        std::abort();
    }
  }

  asio::io_context context_;
  const Spool& from_;
  const std::vector<BlobId>& ids_;
  fs::path directory_;
  std::deque<Bytes> answers_;
  std::optional<Spool> spool_;
  std::shared_ptr<Intake> intake_;
  std::optional<BlobReceiver> receiver_;
  std::optional<BlobSender> sender_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Disk disk;
  spdlog::set_level(spdlog::level::off);
  Transfers transfers(disk);
  Input input(std::span(data, size));
  for (int steps = 0; !input.empty() && steps < 200; ++steps) transfers.step(input);
  transfers.check();
  transfers.converge();
  transfers.check();
  return 0;
}
