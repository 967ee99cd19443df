#include "inter/blob/blob_sender.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "inter/base/text.h"

namespace causeway::inter {
namespace {

constexpr unsigned kTurns = 4;  // of which one is for what is pushed
// One that lost its disk needs a blob again, and one whose disk errs once more.
constexpr std::uint64_t kCopiesMax = 4;
constexpr std::chrono::minutes kCopiesEvery{10};

}  // namespace

BlobSender::Item BlobSender::new_item(const BlobId& id) {
  Item item;
  item.id = id;
  item.pending = ChunkMap(chunk_count(id.size_bytes), true);
  item.confirmed = ChunkMap(chunk_count(id.size_bytes));
  return item;
}

void BlobSender::push(const BlobId& id, LogBudget::Clock::time_point now) {
  forget_what_was_sent_long_ago(now);
  if (find(id) != nullptr) return;
  Item& item = queue_.emplace_back(new_item(id));
  // The peer drops chunks of a blob that it declined until it has said that it thinks otherwise.
  item.known = !asks_first_;
  if (auto leaving = leaving_.extract(id)) item.in_flight = std::move(leaving.mapped());
  for (const auto& [chunk, carrier] : item.in_flight) item.pending.erase(chunk);
}

// With each blob: a peer that gets all by itself asks for none.
void BlobSender::forget_what_was_sent_long_ago(LogBudget::Clock::time_point now) {
  if (now < sent_until_) return;
  sent_.clear();
  sent_until_ = now + kCopiesEvery;
}

bool BlobSender::was_sent_enough(const BlobId& id, LogBudget::Clock::time_point now) {
  forget_what_was_sent_long_ago(now);
  const auto sent = sent_.find(id);
  if (sent == sent_.end() || sent->second < kCopiesMax * chunk_count(id.size_bytes)) return false;
  const auto left = std::chrono::ceil<std::chrono::seconds>(sent_until_ - now).count();
  if (const auto more = log_.take("sent enough")) {
    spdlog::warn(
        "{} asks for blob {} again, and was sent all of it {} times within {} minutes: it gets no "
        "more of it for {} s. Its disk or its memory is faulty, or it lies{}",
        peer_, to_string(id), kCopiesMax, kCopiesEvery.count(), left, *more);
  }
  return true;
}

void BlobSender::on_fetch(const BlobFetch& fetch, LogBudget::Clock::time_point now) {
  if (!spool_.can_send(fetch.id)) {
    spdlog::debug("{} asks for blob {}, which is not here", peer_, to_string(fetch.id));
    abandoned_.push_back(fetch.id);
    return;
  }
  if (was_sent_enough(fetch.id, now)) {
    if (Item* const queued = find(fetch.id)) let_go(*queued);
    erase(fetch.id);
    abandoned_.push_back(fetch.id);
    return;
  }
  leaving_.erase(fetch.id);  // the peer says what of it is there
  Item* item = find(fetch.id);
  if (item == nullptr) {
    item = &queue_.emplace_back(new_item(fetch.id));
    item->pushed = false;
  } else if (!item->known && !fetch.held.none()) {
    spdlog::info("resuming blob {} to {}, which holds {} of it", to_string(fetch.id), peer_,
                 percent(fetch.held.count(), fetch.held.size()));
  }
  asks_first_ = false;
  item->known = true;
  item->offered = false;
  item->order = fetch.order;
  item->cursor = fetch.start;
  item->confirmed = fetch.held;
  item->pending = fetch.held.inverse();
  // What live connections carry still arrives: before it threw anything away it declined the blob.
  std::erase_if(item->in_flight, [&](const auto& sent) { return fetch.held.has(sent.first); });
  for (const auto& [chunk, carrier] : item->in_flight) item->pending.erase(chunk);
}

std::uint64_t BlobSender::on_ack(const BlobAck& ack) {
  if (confirm_leaving(ack)) return chunk_bytes(ack.id, ack.chunk);
  Item* const item = find(ack.id);
  if (item == nullptr || item->confirmed.has(ack.chunk)) return 0;
  item->confirmed.insert(ack.chunk);
  item->pending.erase(ack.chunk);  // another peer may have sent it
  const auto sent = item->in_flight.find(ack.chunk);
  if (sent == item->in_flight.end()) return 0;
  ++confirmed_[sent->second];
  item->in_flight.erase(sent);
  return chunk_bytes(ack.id, ack.chunk);
}

bool BlobSender::confirm_leaving(const BlobAck& ack) {
  const auto blob = leaving_.find(ack.id);
  if (blob == leaving_.end()) return false;
  const auto sent = blob->second.find(ack.chunk);
  if (sent == blob->second.end()) return false;
  ++confirmed_[sent->second];
  blob->second.erase(sent);
  if (blob->second.empty()) leaving_.erase(blob);
  return true;
}

void BlobSender::on_complete(const BlobId& id) {
  if (Item* const item = find(id)) let_go(*item);
  erase(id);
  if (const auto arrived = leaving_.extract(id))
    for (const auto& [chunk, carrier] : arrived.mapped()) ++confirmed_[carrier];
}

void BlobSender::let_go(Item& item) {
  if (!item.in_flight.empty()) leaving_[item.id] = std::move(item.in_flight);
}

void BlobSender::on_decline(const BlobDecline& decline) {
  Item* const declined = find(decline.id);
  if (decline.reason.empty()) {
    if (declined != nullptr) let_go(*declined);
    return erase(decline.id);
  }
  leaving_.erase(decline.id);  // it is dropped in silence
  if (declined == nullptr) return;
  if (const auto more = log_.take(LogBudget::kind_of(decline.reason))) {
    spdlog::warn(
        "{} declined blob {}: {}; the blobs after it are offered, and sent when they are asked "
        "for{}",
        peer_, to_string(decline.id), decline.reason, *more);
  }
  erase(decline.id);
  asks_first_ = true;
  for (Item& item : queue_) {
    const bool begun = !item.in_flight.empty() || !item.confirmed.none();
    item.known = item.known && begun;
  }
}

void BlobSender::count_lost(const BlobId& id, std::uint64_t chunks) {
  const auto sent = sent_.find(id);
  if (sent != sent_.end()) sent->second -= std::min(sent->second, chunks);
}

void BlobSender::on_new_session() {
  abandoned_.clear();
  for (const auto& [id, chunks] : leaving_) count_lost(id, chunks.size());
  for (const Item& item : queue_) count_lost(item.id, item.in_flight.size());
  leaving_.clear();
  confirmed_.clear();  // it numbers its connections anew
  for (Item& item : queue_) {
    item.known = false;
    item.offered = false;
    item.in_flight.clear();
  }
}

void BlobSender::on_connection_lost(ConnectionNumber connection) {
  confirmed_.erase(connection);
  for (auto& [id, chunks] : leaving_) {
    count_lost(id,
               std::erase_if(chunks, [=](const auto& sent) { return sent.second == connection; }));
  }
  std::erase_if(leaving_, [](const auto& blob) { return blob.second.empty(); });
  for (Item& item : queue_) {
    for (auto chunk = item.in_flight.begin(); chunk != item.in_flight.end();) {
      if (chunk->second != connection) {
        ++chunk;
        continue;
      }
      put_back(item, chunk->first);
      count_lost(item.id, 1);
      chunk = item.in_flight.erase(chunk);
    }
  }
}

// To go out before those that were never sent.
void BlobSender::put_back(Item& item, std::uint64_t chunk) {
  item.pending.insert(chunk);
  item.cursor =
      item.order == Order::ascending ? std::min(item.cursor, chunk) : std::max(item.cursor, chunk);
}

std::optional<Bytes> BlobSender::next_control() {
  if (!abandoned_.empty()) {
    const BlobId id = abandoned_.front();
    abandoned_.pop_front();
    return encode_id(FrameType::blob_abandon, id);
  }
  for (Item& item : queue_) {
    if (!item.known && !item.offered) {
      item.offered = true;
      return encode_id(FrameType::blob_offer, item.id);
    }
  }
  return std::nullopt;
}

std::optional<Bytes> BlobSender::next_chunk(ConnectionNumber connection, Bytes memory) {
  const bool pushed = turn_ == 0;
  turn_ = (turn_ + 1) % kTurns;
  auto frame = next_chunk_of(pushed, connection, memory);
  return frame ? std::move(frame) : next_chunk_of(!pushed, connection, memory);
}

std::optional<Bytes> BlobSender::next_chunk_of(bool pushed, ConnectionNumber connection,
                                               Bytes& memory) {
  for (auto item = queue_.begin(); item != queue_.end();) {
    if (!spool_.can_send(item->id)) {
      let_go(*item);
      abandoned_.push_back(item->id);
      item = queue_.erase(item);
      continue;
    }
    const bool has_its_turn = item->known && item->pushed == pushed;
    const auto chunk = has_its_turn ? item->pending.next(item->cursor, item->order) : std::nullopt;
    if (!chunk) {
      ++item;
      continue;
    }
    if (auto frame = read_chunk(*item, *chunk, connection, std::exchange(memory, {}))) return frame;
    let_go(*item);
    abandoned_.push_back(item->id);
    item = queue_.erase(item);
  }
  return std::nullopt;
}

std::optional<Bytes> BlobSender::read_chunk(Item& item, std::uint64_t chunk,
                                            ConnectionNumber connection, Bytes memory) {
  try {
    Bytes frame = encode_chunk(item.id, chunk, std::move(memory));
    spool_.read(item.id, chunk_offset(item.id, chunk),
                std::span(frame).last(chunk_bytes(item.id, chunk)));
    item.cursor = chunk;
    item.pending.erase(chunk);
    item.in_flight[chunk] = connection;
    ++sent_[item.id];
    return frame;
  } catch (const std::system_error& error) {
    spdlog::error("cannot send blob {} to {}: {}", to_string(item.id), peer_, error.what());
    return std::nullopt;
  }
}

bool BlobSender::idle() const {
  return leaving_.empty() && std::ranges::all_of(queue_, [](const Item& item) {
           return item.in_flight.empty() && item.pending.none();
         });
}

bool BlobSender::under_way() const {
  return !leaving_.empty() ||
         std::ranges::any_of(queue_, [](const Item& item) { return !item.in_flight.empty(); });
}

std::uint64_t BlobSender::bytes_left() const {
  std::uint64_t bytes = 0;
  for (const Item& item : queue_)
    bytes += chunk_offset(item.id, item.confirmed.size() - item.confirmed.count());
  return bytes;
}

bool BlobSender::exhausted() const {
  return std::ranges::all_of(queue_, [](const Item& item) { return item.pending.none(); });
}

std::uint64_t BlobSender::in_flight(ConnectionNumber connection) const {
  std::uint64_t chunks = 0;
  const auto count = [&](const InFlight& in_flight) {
    for (const auto& [chunk, carrier] : in_flight) chunks += carrier == connection ? 1 : 0;
  };
  for (const Item& item : queue_) count(item.in_flight);
  for (const auto& [id, in_flight] : leaving_) count(in_flight);
  return chunks;
}

std::uint64_t BlobSender::confirmed(ConnectionNumber connection) const {
  const auto chunks = confirmed_.find(connection);
  return chunks == confirmed_.end() ? 0 : chunks->second;
}

BlobSender::Item* BlobSender::find(const BlobId& id) {
  const auto item =
      std::ranges::find_if(queue_, [&](const Item& queued) { return queued.id == id; });
  return item == queue_.end() ? nullptr : &*item;
}

void BlobSender::erase(const BlobId& id) {
  std::erase_if(queue_, [&](const Item& item) { return item.id == id; });
}

std::string BlobSender::describe() const {
  if (queue_.empty()) return "";
  const Item& item = queue_.front();
  std::string text = "sending blob " + to_string(item.id) + ", " +
                     percent(item.confirmed.count(), item.confirmed.size()) + " confirmed";
  if (const std::size_t more = queue_.size() - 1; more > 0)
    text += fmt::format(", and {} more queued", more);
  return text;
}

}  // namespace causeway::inter
