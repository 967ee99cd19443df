#include "tests/diloco/cluster/cluster_links.h"

#include <algorithm>
#include <cassert>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "tests/diloco/cluster/history.h"

namespace causeway::diloco::testing {

using inter::BlobId;
using inter::Bytes;
using inter::FrameType;
using std::chrono::milliseconds;

namespace {

constexpr std::size_t kControl = 0;
constexpr std::uint64_t kSpoolBytes = 1U << 30;  // room for everything
constexpr unsigned kChunksUnderWay = 2;          // on a connection
constexpr double kConnectionLoss = 0.01;         // with each chunk
constexpr double kTear = 0.5;                    // with each kill

std::pair<std::string, std::string> pair_of(const std::string& a, const std::string& b) {
  return std::minmax(a, b);
}

std::vector<std::byte> bytes_for(const std::string& content, std::uint64_t size) {
  const Digest digest = sha256(std::as_bytes(std::span(content)));
  std::seed_seq seed(digest.begin(), digest.end());
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

}  // namespace

ClusterLinks::ClusterLinks(Host host, std::uint64_t seed, std::uint64_t spool_bytes)
    : host_(std::move(host)),
      random_(seed),
      spool_bytes_(spool_bytes == 0 ? kSpoolBytes : spool_bytes) {}

Time ClusterLinks::random_time(std::int64_t min_ms, std::int64_t max_ms) {
  return milliseconds{std::uniform_int_distribution<std::int64_t>(min_ms, max_ms)(random_)};
}

// ---- Processes ----

std::set<BlobId> ClusterLinks::start(const std::string& region) {
  Site& site = sites_[region];
  site.spool.emplace(site.directory.path(), spool_bytes_);
  site.life = ++lives_;
  const auto completed = [this, region, life = site.life](const std::string&, const BlobId& blob) {
    host_.at(host_.now(), [this, region, life, blob] {
      // The protocol may have let go of it since; a coordinator hears of it at once.
      Site& there = sites_[region];
      if (there.life == life && there.spool->has(blob)) host_.on_blob(region, blob);
    });
  };
  site.intake = std::make_shared<inter::Intake>(context_.get_executor(), *site.spool, kSpoolBytes,
                                                completed, context_.get_executor());
  const std::vector<BlobId> complete = site.spool->complete();
  return {complete.begin(), complete.end()};
}

void ClusterLinks::kill(const std::string& region) {
  Site& site = sites_[region];
  if (!site.spool) return;
  for (const auto& [ends, open] : sessions_) {
    if (ends.first == region || ends.second == region)
      throw Violation("a session outlives its end");
  }
  site.life = ++lives_;
  site.intake->stop();
  site.intake.reset();
  site.outgoing.clear();
  site.spool.reset();
  if (std::bernoulli_distribution(kTear)(random_)) tear(region);
}

// What was written last may be lost, or be there in part.
void ClusterLinks::tear(const std::string& region) {
  std::vector<std::filesystem::path> files;
  for (const auto& file : std::filesystem::directory_iterator(sites_[region].directory.path())) {
    const auto kind = file.path().extension();
    if (kind == ".part" || kind == ".hashes") files.push_back(file.path());
  }
  if (files.empty()) return;
  std::ranges::sort(files);
  const auto& file = files[random_() % files.size()];
  const std::uint64_t size = std::filesystem::file_size(file);
  const std::uint64_t at = size == 0 ? 0 : random_() % size;
  if (random_() % 2 == 0) return std::filesystem::resize_file(file, at);
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(static_cast<std::streamoff>(at));
  stream << "torn";
}

void ClusterLinks::wipe(const std::string& region) {
  for (const auto& file : std::filesystem::directory_iterator(sites_[region].directory.path())) {
    std::filesystem::remove(file.path());
  }
}

BlobId ClusterLinks::put(const std::string& region, const std::string& content,
                         std::uint64_t size) {
  return sites_.at(region).spool->put(bytes_for(content, size));
}

void ClusterLinks::remove(const std::string& region, const BlobId& blob) {
  sites_.at(region).spool->remove(blob);
}

// ---- Sessions ----

ClusterLinks::Session* ClusterLinks::session(const std::string& a, const std::string& b) {
  const auto found = sessions_.find(pair_of(a, b));
  return found == sessions_.end() ? nullptr : &found->second;
}

inter::BlobSender& ClusterLinks::sender(const std::string& from, const std::string& to) {
  Site& site = sites_.at(from);
  return site.outgoing.try_emplace(to, *site.spool, to).first->second;
}

void ClusterLinks::connect(const std::string& a, const std::string& b) {
  Session& opened = sessions_[pair_of(a, b)];
  opened.life = ++lives_;
  for (std::size_t lane = 0; lane < kLanes; ++lane) opened.numbers[lane] = lane;
  for (const auto& [self, peer] : {std::pair(a, b), std::pair(b, a)}) {
    opened.streams[self];
    opened.receivers[self] = std::make_unique<inter::BlobReceiver>(
        sites_.at(self).intake, peer, [this, self, peer](Bytes frame) {
          send({self, peer, kControl}, std::move(frame));
        });
    sender(self, peer).on_new_session();
  }
  pump(a, b);
  pump(b, a);
}

void ClusterLinks::disconnect(const std::string& a, const std::string& b) {
  sessions_.erase(pair_of(a, b));
}

void ClusterLinks::push(const std::string& from, const std::string& to, const BlobId& blob) {
  sender(from, to).push(blob);
  pump(from, to);
}

void ClusterLinks::forgo(const std::string& region, const std::string& from, const BlobId& blob) {
  if (Session* open = session(region, from)) open->receivers.at(region)->forgo(blob);
}

void ClusterLinks::fetch(const std::string& region, const std::string& from, const BlobId& blob) {
  if (Session* open = session(region, from)) open->receivers.at(region)->want(blob);
  settle();
}

// ---- Frames ----

void ClusterLinks::pump(const std::string& from, const std::string& to) {
  Session* open = session(from, to);
  if (open == nullptr) return;
  inter::BlobSender& source = sender(from, to);
  for (std::size_t lane = 1; lane < kLanes; ++lane) {
    Stream& stream = open->streams.at(from)[lane];
    while (stream.chunks_under_way < kChunksUnderWay) {
      auto frame = source.next_chunk(open->numbers[lane]);
      if (!frame) break;
      ++stream.chunks_under_way;
      ++chunks_sent_;
      send({from, to, lane}, std::move(*frame));
    }
  }
  while (auto frame = source.next_control()) send({from, to, kControl}, std::move(*frame));
}

void ClusterLinks::send(const Way& way, Bytes frame) {
  Session* open = session(way.from, way.to);
  if (open == nullptr || host_.deaf(way.from, way.to)) return;
  Time& last = open->streams.at(way.from)[way.lane].last_arrival;
  const Time slow = way.lane == kControl ? Time{0} : host_.per_chunk(way.from);
  last = std::max(last, host_.now() + slow + random_time(5, 150));
  host_.at(last, [this, way, life = open->life, number = open->numbers[way.lane],
                  frame = std::move(frame)] { arrive(way, life, number, frame); });
  if (way.lane != kControl && std::bernoulli_distribution(kConnectionLoss)(random_)) {
    host_.at(host_.now() + random_time(1, 200),
             [this, way, life = open->life, number = open->numbers[way.lane]] {
               Session* later = session(way.from, way.to);
               const bool same =
                   later != nullptr && later->life == life && later->numbers[way.lane] == number;
               if (same) lose(way.from, way.to, way.lane);
             });
  }
}

// A data connection breaks; another takes its place.
void ClusterLinks::lose(const std::string& a, const std::string& b, std::size_t lane) {
  Session& open = *session(a, b);
  const inter::ConnectionNumber lost =
      std::exchange(open.numbers[lane], open.numbers[lane] + kLanes);
  for (const auto& [self, peer] : {std::pair(a, b), std::pair(b, a)}) {
    open.streams.at(self)[lane] = Stream{};
    sender(self, peer).on_connection_lost(lost);
    pump(self, peer);
  }
}

void ClusterLinks::arrive(const Way& way, std::uint64_t life, inter::ConnectionNumber number,
                          const Bytes& frame) {
  Session* open = session(way.from, way.to);
  if (open == nullptr || open->life != life || open->numbers[way.lane] != number) return;
  if (const Time until = host_.paused_until(way.to); host_.now() < until) {
    return host_.at(until, [this, way, life, number, frame] { arrive(way, life, number, frame); });
  }
  Stream& stream = open->streams.at(way.from)[way.lane];
  if (way.lane != kControl) --stream.chunks_under_way;
  for (std::span<const std::byte> rest(frame); !rest.empty();) {
    const auto space = stream.parser.writable();
    const std::size_t piece = std::min({space.size(), rest.size(), 1 + random_() % 40'000});
    std::ranges::copy(rest.first(piece), space.begin());
    stream.parser.received(piece);
    rest = rest.subspan(piece);
    while (const auto whole = stream.parser.next()) handle(way, *whole);
  }
  settle();
  pump(way.from, way.to);
  pump(way.to, way.from);
}

void ClusterLinks::handle(const Way& way, const inter::FrameView& frame) {
  if (way.lane == kControl) return handle_control(way, frame);
  const inter::BlobChunk chunk = inter::decode_chunk(frame.body);
  session(way.from, way.to)->receivers.at(way.to)->on_chunk(chunk);
  const Site& site = sites_.at(way.to);
  host_.at(host_.now(), [this, region = way.to, life = site.life, id = chunk.id,
                         bytes = site.spool->received_bytes(chunk.id)] {
    if (sites_[region].life == life) host_.on_progress(region, id, bytes);
  });
}

void ClusterLinks::handle_control(const Way& way, const inter::FrameView& frame) {
  inter::BlobReceiver& receiver = *session(way.from, way.to)->receivers.at(way.to);
  inter::BlobSender& source = sender(way.to, way.from);
  switch (frame.type) {
    case FrameType::blob_offer:
      return receiver.on_offer(inter::decode_id(frame.body));
    case FrameType::blob_abandon:
      return receiver.on_abandon(inter::decode_id(frame.body));
    case FrameType::blob_fetch:
      return source.on_fetch(inter::decode_fetch(frame.body));
    case FrameType::blob_ack:
      source.on_ack(inter::decode_ack(frame.body));
      return;
    case FrameType::blob_complete:
      return source.on_complete(inter::decode_id(frame.body));
    case FrameType::blob_decline:
      return source.on_decline(inter::decode_decline(frame.body));
    default:
      throw Violation("an unexpected frame");
  }
}

// Hashing, and what it leads to.
void ClusterLinks::settle() {
  context_.restart();
  context_.poll();
}

}  // namespace causeway::diloco::testing
