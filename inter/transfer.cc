#include "inter/transfer.h"

#include <algorithm>
#include <system_error>

#include <spdlog/spdlog.h>

#include "inter/error.h"

namespace causeway::inter {
namespace {

// A peer may name as many blobs as it likes; what we remember of them is bounded.
constexpr std::size_t kRememberedBlobsMax = 4096;

std::string percent(std::uint64_t part, std::uint64_t whole) {
  return std::to_string(whole == 0 ? 100 : part * 100 / whole) + " %";
}

template <typename Items>
auto locate(Items& items, const BlobId& id) {
  return std::find_if(items.begin(), items.end(), [&](const auto& item) { return item.id == id; });
}

}  // namespace

void BlobSender::push(const BlobId& id) {
  if (find(id) == nullptr) {
    queue_.push_back({id, 0});
  }
}

void BlobSender::on_fetch(const BlobFetch& fetch) {
  if (!spool_.has(fetch.id)) {
    spdlog::debug("{} asks for blob {}, which is not here", peer_, to_string(fetch.id));
    return;
  }
  // Bytes sent once already are missing over there: they go first.
  if (const auto sent = locate(unconfirmed_, fetch.id); sent != unconfirmed_.end()) {
    queue_.push_front(*sent);
    unconfirmed_.erase(sent);
  }
  Item* item = find(fetch.id);
  if (item == nullptr) {
    item = &queue_.emplace_back(Item{fetch.id, {}});
  } else if (!item->next_offset && fetch.offset > 0) {
    spdlog::info("resuming blob {} to {} at byte {}", to_string(item->id), peer_, fetch.offset);
  }
  item->next_offset = fetch.offset;
  item->confirmed_bytes = fetch.offset;
}

void BlobSender::on_progress(const BlobProgress& progress) {
  if (progress.received_bytes == progress.id.size_bytes) {
    erase(progress.id);
    return;
  }
  Item* item = find(progress.id);
  if (item == nullptr) {
    return;
  }
  item->confirmed_bytes = std::max(item->confirmed_bytes, progress.received_bytes);
  // The peer may be ahead of us: what another sends it counts too.
  item->next_offset = std::max(item->next_offset.value_or(0), progress.received_bytes);
}

void BlobSender::on_decline(const BlobDecline& decline) {
  if (find(decline.id) != nullptr) {
    spdlog::warn("{} declined blob {}: {}", peer_, to_string(decline.id), decline.reason);
    erase(decline.id);
  }
}

void BlobSender::on_reconnected() {
  queue_.insert(queue_.begin(), unconfirmed_.begin(), unconfirmed_.end());
  unconfirmed_.clear();
  for (Item& item : queue_) {
    item.next_offset.reset();
    item.offered = false;
  }
}

std::optional<Bytes> BlobSender::next() {
  auto offer = next_offer();
  return offer ? std::move(offer) : next_chunk();
}

// All offers go out before any chunk, so that their answers arrive together, one round trip later.
std::optional<Bytes> BlobSender::next_offer() {
  for (Item& item : queue_) {
    if (!item.next_offset && !item.offered) {
      item.offered = true;
      return encode_id(FrameType::blob_offer, item.id);
    }
  }
  return std::nullopt;
}

std::optional<Bytes> BlobSender::next_chunk() {
  if (queue_.empty()) {
    return std::nullopt;
  }
  Item& item = queue_.front();
  if (!spool_.has(item.id)) {
    return abandon_front();
  }
  if (!item.next_offset) {
    return std::nullopt;
  }
  try {
    const auto bytes = spool_.read(item.id, *item.next_offset, kChunkBytesMax);
    Bytes frame = encode(BlobChunk{item.id, *item.next_offset, bytes});
    *item.next_offset += bytes.size();
    if (*item.next_offset == item.id.size_bytes) {
      unconfirmed_.push_back(item);
      queue_.pop_front();
    }
    return frame;
  } catch (const std::system_error& error) {
    spdlog::error("cannot send blob {} to {}: {}", to_string(item.id), peer_, error.what());
    return abandon_front();
  }
}

Bytes BlobSender::abandon_front() {
  const BlobId id = queue_.front().id;
  queue_.pop_front();
  return encode_id(FrameType::blob_abandon, id);
}

BlobSender::Item* BlobSender::find(const BlobId& id) {
  if (const auto item = locate(queue_, id); item != queue_.end()) {
    return &*item;
  }
  const auto item = locate(unconfirmed_, id);
  return item == unconfirmed_.end() ? nullptr : &*item;
}

void BlobSender::erase(const BlobId& id) {
  std::erase_if(queue_, [&](const Item& item) { return item.id == id; });
  std::erase_if(unconfirmed_, [&](const Item& item) { return item.id == id; });
}

std::string BlobSender::describe() const {
  if (!busy()) {
    return "";
  }
  const Item& item = unconfirmed_.empty() ? queue_.front() : unconfirmed_.front();
  std::string text = "sending blob " + to_string(item.id) + ", " +
                     percent(item.confirmed_bytes, item.id.size_bytes) + " confirmed";
  if (const std::size_t more = queue_.size() + unconfirmed_.size() - 1; more > 0) {
    text += ", and " + std::to_string(more) + " more queued";
  }
  return text;
}

BlobReceiver::Reply BlobReceiver::on_offer(const BlobId& id) {
  declined_.erase(id);
  if (id.size_bytes > blob_bytes_max_) {
    return decline(id, "larger than the limit of " + std::to_string(blob_bytes_max_) + " bytes");
  }
  if (spool_.has(id)) {
    return BlobProgress{id, id.size_bytes};
  }
  return BlobFetch{id, spool_.received_bytes(id)};
}

std::optional<BlobFetch> BlobReceiver::want(const BlobId& id) {
  if (spool_.has(id) || incoming_.contains(id)) {
    return std::nullopt;
  }
  declined_.erase(id);
  return BlobFetch{id, spool_.received_bytes(id)};
}

BlobReceiver::Result BlobReceiver::on_chunk(const BlobChunk& chunk) {
  const BlobId& id = chunk.id;
  if (spool_.has(id)) {
    on_abandon(id);
    return {BlobProgress{id, id.size_bytes}};
  }
  if (chunk.offset == 0) {
    declined_.erase(id);  // a new attempt
  }
  if (declined_.contains(id)) {
    return {};
  }
  if (id.size_bytes > blob_bytes_max_) {
    return {decline(id, "larger than the limit of " + std::to_string(blob_bytes_max_) + " bytes")};
  }
  const std::uint64_t received = spool_.received_bytes(id);
  if (chunk.offset > received) {
    incoming_.insert(id);
    const bool first = gaps_.insert(id).second;
    return first ? Result{BlobFetch{id, received}} : Result{};
  }
  gaps_.erase(id);
  const bool nothing_new = chunk.offset + chunk.bytes.size() <= received;
  if (nothing_new && id.size_bytes > 0) {
    incoming_.insert(id);
    return {BlobProgress{id, received}};
  }
  return append(id, received, chunk.bytes.subspan(received - chunk.offset));
}

BlobReceiver::Result BlobReceiver::append(const BlobId& id, std::uint64_t offset,
                                          std::span<const std::byte> bytes) {
  try {
    const bool completed = spool_.append(id, offset, bytes);
    incoming_.insert(id);
    if (completed) {
      on_abandon(id);
      mismatches_.erase(id);
    }
    return {BlobProgress{id, spool_.received_bytes(id)}, completed};
  } catch (const std::system_error& error) {
    return on_append_failed(id, error);
  }
}

// The first wrong hash may be the fault of an older prefix, from another peer or another life: this
// peer gets to send the whole blob once.
BlobReceiver::Result BlobReceiver::on_append_failed(const BlobId& id,
                                                    const std::system_error& error) {
  if (error.code() == Errc::hash_mismatch && mismatches_.size() < kRememberedBlobsMax &&
      ++mismatches_[id] == 1) {
    spdlog::warn("blob {} from {} does not match its hash; asking for all of it again",
                 to_string(id), peer_);
    incoming_.insert(id);
    gaps_.insert(id);
    return {BlobFetch{id, 0}};
  }
  return {decline(id, error.what())};
}

void BlobReceiver::on_abandon(const BlobId& id) {
  incoming_.erase(id);
  gaps_.erase(id);
}

BlobDecline BlobReceiver::decline(const BlobId& id, const std::string& reason) {
  spdlog::warn("declining blob {} from {}: {}", to_string(id), peer_, reason);
  on_abandon(id);
  if (declined_.size() >= kRememberedBlobsMax) {
    declined_.clear();
  }
  declined_.insert(id);
  return {id, reason};
}

std::string BlobReceiver::describe() const {
  if (!busy()) {
    return "";
  }
  const BlobId& id = *incoming_.begin();
  return "receiving blob " + to_string(id) + ", " +
         percent(spool_.received_bytes(id), id.size_bytes) + " here";
}

}  // namespace causeway::inter
