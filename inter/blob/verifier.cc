#include "inter/blob/verifier.h"

#include <fcntl.h>

#include <algorithm>
#include <ctime>

#include <asio/post.hpp>

#include "inter/base/error.h"
#include "inter/base/file.h"
#include "inter/base/hash.h"
#include "inter/base/limits.h"

namespace causeway::inter {
namespace {

constexpr std::uint64_t kSliceMin = 2U << 20;   // not worth a hand-over to the thread below this
constexpr std::uint64_t kSliceMax = 64U << 20;  // stop() waits for this much
constexpr std::chrono::seconds kRecheckInterval{10};

std::chrono::nanoseconds thread_cpu_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

// Belongs to the thread while `running`, to the executor otherwise.
struct Verifier::Job {
  BlobId id;
  std::filesystem::path path;
  std::uint64_t life = 0;
  Sha256 hash;
  std::uint64_t hashed_bytes = 0;
  bool running = false;
  std::optional<Sha256Hash> result;
  std::optional<std::system_error> failure;
  std::chrono::nanoseconds cpu_time{0};

  void hash_to(std::uint64_t end) {
    const auto began = thread_cpu_time();
    try {
      File file(path, O_RDWR);
      const PageBuffer buffer(kHashReadBytes);
      while (hashed_bytes < end) {
        const auto part =
            buffer.bytes().first(std::min<std::uint64_t>(end - hashed_bytes, kHashReadBytes));
        if (file.read_at(hashed_bytes, part) != part.size()) {
          throw std::system_error(std::make_error_code(std::errc::io_error),
                                  path.string() + " is shorter than it was");
        }
        hash.update(part);
        hashed_bytes += part.size();
      }
      if (end == id.size_bytes) {
        file.sync();
        result = hash.finish();
      }
    } catch (const std::system_error& error) {
      failure = error;
    }
    cpu_time = thread_cpu_time() - began;
  }
};

Verifier::Verifier(asio::any_io_executor executor, Spool& spool, Verdict verdict,
                   asio::any_io_executor hashing, Lost lost)
    : executor_(std::move(executor)),
      spool_(spool),
      verdict_(std::move(verdict)),
      lost_(std::move(lost)),
      alive_(std::make_shared<Verifier*>(this)),
      hashing_(std::move(hashing)) {
  if (!hashing_) hashing_ = thread_.emplace(1).executor();
}

Verifier::~Verifier() {
  stop();
}

void Verifier::stop() {
  alive_.reset();
  if (thread_) thread_->join();
}

void Verifier::advance(const BlobId& id) {
  const auto file = spool_.partial(id);
  if (!file || !alive_) return;
  std::shared_ptr<Job>& job = jobs_[id];
  if (!job || job->life != file->life) {
    job = std::make_shared<Job>();
    job->id = id;
    job->path = file->path;
    job->life = file->life;
  }
  if (job->running) return;
  const std::uint64_t ready_bytes = file->prefix_bytes - job->hashed_bytes;
  const bool last = file->prefix_bytes == id.size_bytes && spool_.held(id).all();
  if (last || ready_bytes >= kSliceMin)
    start_slice(job, job->hashed_bytes + std::min(ready_bytes, kSliceMax));
}

void Verifier::start_slice(const std::shared_ptr<Job>& job, std::uint64_t end) {
  job->running = true;
  const std::weak_ptr<Verifier*> self = alive_;
  asio::post(hashing_, [job, end, self, executor = executor_] {
    job->hash_to(end);
    asio::post(executor, [job, self] {
      if (const auto alive = self.lock()) (*alive)->on_slice(job);
    });
  });
}

void Verifier::on_slice(const std::shared_ptr<Job>& job) {
  job->running = false;
  cpu_time_ += job->cpu_time;
  const auto file = spool_.partial(job->id);
  if (!file || file->life != job->life) {
    std::erase_if(jobs_, [&](const auto& entry) { return entry.second == job; });
    advance(job->id);  // if it was begun anew meanwhile
  } else if (job->result || job->failure) {
    conclude(job);
  } else {
    advance(job->id);
  }
}

void Verifier::conclude(const std::shared_ptr<Job>& job) {
  jobs_.erase(job->id);
  std::optional<std::system_error> failure = job->failure;
  try {
    if (!failure) {
      hashed_bytes_ += job->id.size_bytes;
      spool_.finish_checked(job->id, job->life, *job->result);
    }
  } catch (const std::system_error& error) {
    failure = error;
  }
  verdict_(job->id, failure);
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
