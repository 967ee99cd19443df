#include "inter/blob/verifier.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <thread>

#include <asio/post.hpp>

#include "inter/base/error.h"
#include "inter/base/hash_tree.h"

namespace causeway::inter {
namespace {

// 16 MiB. If more chunks wait, whoever brings the next one hashes it, and so waits.
constexpr std::size_t kQueuedMax = 64;
constexpr std::chrono::seconds kRecheckInterval{10};

std::chrono::nanoseconds thread_cpu_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

// Without instructions for SHA-256 one thread does not keep up with a fast link.
std::size_t thread_count() {
  return std::clamp(std::thread::hardware_concurrency() / 4, 1U, 4U);
}

bool few_cores() {
  return std::thread::hardware_concurrency() < 4;
}

}  // namespace

// A chunk and what becomes of it. While a thread hashes it, nobody else touches it.
struct Verifier::Chunk {
  BlobId id;
  std::uint64_t life = 0;
  std::uint64_t chunk = 0;
  std::span<const std::byte> bytes;
  Buffer copy;
  Sha256Hash hash{};
  std::chrono::nanoseconds cpu_time{0};

  void make_hash() {
    const auto began = thread_cpu_time();
    hash = tree_hash(bytes);
    cpu_time = thread_cpu_time() - began;
  }
};

// Whether a blob that is here is what its name says.
struct Verifier::Checked {
  BlobId id;
  std::uint64_t life = 0;
  std::vector<Sha256Hash> chunks;
  Sha256Hash hash{};
  std::optional<std::system_error> failure;

  void make(const Spool::Partial& file) {
    try {
      File(file.path, O_WRONLY).sync();
      chunks = noted_hashes(file.map, id);
      hash = tree_root(chunks);
    } catch (const std::system_error& error) {
      failure = error;
    }
  }
};

Verifier::Verifier(asio::any_io_executor executor, Spool& spool, Verdict verdict,
                   asio::any_io_executor hashing, Lost lost)
    : executor_(std::move(executor)),
      spool_(spool),
      verdict_(std::move(verdict)),
      lost_(std::move(lost)),
      alive_(std::make_shared<Verifier*>(this)),
      hashing_(std::move(hashing)),
      in_place_(!hashing_ && few_cores()) {
  if (!hashing_) hashing_ = threads_.emplace(thread_count()).executor();
}

Verifier::~Verifier() {
  stop();
}

void Verifier::stop() {
  alive_.reset();
  if (threads_) threads_->join();
}

Verifier::Buffer Verifier::buffer() {
  if (buffers_.empty()) return std::make_unique<PageBuffer>(kChunkBytesMax);
  Buffer last = std::move(buffers_.back());
  buffers_.pop_back();
  return last;
}

void Verifier::add(const BlobId& id, std::uint64_t chunk, std::span<const std::byte> bytes) {
  if (!alive_) return;
  auto work = std::make_shared<Chunk>(Chunk{id, spool_.life(id), chunk, bytes, {}, {}, {}});
  const std::uint64_t here = spool_.received_bytes(id);
  if (here / File::kSyncBytes != (here - bytes.size()) / File::kSyncBytes) begin_sync(id);
  if (in_place_ || under_way_ == kQueuedMax) {
    work->make_hash();
    on_hashed(*work);
    return;
  }
  work->copy = buffer();
  work->bytes = work->copy->bytes().first(bytes.size());
  std::memcpy(work->copy->bytes().data(), bytes.data(), bytes.size());
  ++under_way_;
  const std::weak_ptr<Verifier*> self = alive_;
  asio::post(hashing_, [work, self, executor = executor_] {
    work->make_hash();
    asio::post(executor, [work, self] {
      const auto alive = self.lock();
      if (!alive) return;
      Verifier& verifier = **alive;
      --verifier.under_way_;
      verifier.buffers_.push_back(std::move(work->copy));
      verifier.on_hashed(*work);
    });
  });
}

// In another thread: a disk with much to do already lets it wait.
void Verifier::begin_sync(const BlobId& id) {
  const auto file = spool_.partial(id);
  if (!file) return;
  asio::post(hashing_, [path = file->path] {
    try {
      File(path, O_WRONLY).begin_sync();
    } catch (const std::system_error&) {  // it was removed meanwhile
    }
  });
}

void Verifier::on_hashed(const Chunk& chunk) {
  cpu_time_ += chunk.cpu_time;
  hashed_bytes_ += chunk.bytes.size();
  try {
    if (spool_.note(chunk.id, chunk.life, chunk.chunk, chunk.hash)) finish(chunk.id);
  } catch (const std::system_error& error) {
    verdict_(chunk.id, error, {});
  }
}

void Verifier::finish(const BlobId& id) {
  const auto file = spool_.partial(id);
  if (!file || !alive_ || !spool_.all_noted(id)) return;
  const auto [known, added] = finishing_.try_emplace(id, file->life);
  if (!added && known->second == file->life) return;
  known->second = file->life;
  const std::weak_ptr<Verifier*> self = alive_;
  asio::post(hashing_, [id, file, self, executor = executor_] {
    Checked checked{id, file->life, {}, {}, {}};
    checked.make(*file);
    asio::post(executor, [checked = std::move(checked), self] {
      if (const auto alive = self.lock()) (*alive)->on_checked(checked);
    });
  });
}

void Verifier::on_checked(const Checked& checked) {
  std::erase_if(finishing_, [&](const auto& entry) {
    return entry.first == checked.id && entry.second == checked.life;
  });
  const auto file = spool_.partial(checked.id);
  if (!file || file->life != checked.life) return;  // it was removed, and perhaps begun anew
  std::optional<std::system_error> failure = checked.failure;
  try {
    if (!failure) spool_.finish_checked(checked.id, checked.life, checked.hash);
  } catch (const std::system_error& error) {
    failure = error;
  }
  verdict_(checked.id, failure, checked.chunks);
}

void Verifier::recheck(const BlobId& id) {
  const auto now = std::chrono::steady_clock::now();
  std::erase_if(rechecked_,
                [now](const auto& known) { return now >= known.second + kRecheckInterval; });
  if (!spool_.has(id) || !alive_ || !rechecked_.try_emplace(id, now).second) return;
  const std::weak_ptr<Verifier*> self = alive_;
  asio::post(hashing_, [id, life = spool_.life(id), path = spool_.path(id), self,
                        executor = executor_] {
    std::optional<std::string> damage;
    try {
      damage = damage_of(path, id);
    } catch (const std::system_error&) {  // it was removed meanwhile, or whoever needs it will see
      return;
    }
    asio::post(executor, [id, life, self, damage] {
      if (const auto alive = self.lock()) (*alive)->on_rechecked(id, life, damage);
    });
  });
}

void Verifier::on_rechecked(const BlobId& id, std::uint64_t life,
                            const std::optional<std::string>& damage) {
  if (!damage || !spool_.has(id) || spool_.life(id) != life) return;
  spool_.remove_damaged(id, *damage);
  if (lost_) lost_(id);
}

}  // namespace causeway::inter
