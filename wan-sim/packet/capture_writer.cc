#include "wan-sim/packet/capture_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <system_error>
#include <utility>

namespace causeway::wan_sim {

CaptureWriter::CaptureWriter(std::vector<std::filesystem::path> files) {
  for (std::filesystem::path& path : files) files_.push_back({.path = std::move(path)});
}

void CaptureWriter::start() {
  thread_ = std::thread([this] { write_until_finished(); });
}

bool CaptureWriter::try_give(std::vector<Chunk>& chunks, Outcome& outcome) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  give(chunks, outcome);
  return true;
}

void CaptureWriter::give(std::vector<Chunk>& chunks, Outcome& outcome) {
  for (const Chunk& chunk : chunks) outcome_.waiting_bytes += chunk.bytes.size();
  std::move(chunks.begin(), chunks.end(), std::back_inserter(waiting_));
  chunks.clear();
  outcome.waiting_bytes = outcome_.waiting_bytes;
  outcome.problem = outcome_.problem;
  for (Chunk& failed : outcome_.failed) outcome.failed.push_back(std::move(failed));
  outcome_.failed.clear();
  if (!waiting_.empty()) more_.notify_one();
}

CaptureWriter::Outcome CaptureWriter::finish(std::vector<Chunk> chunks) {
  Outcome outcome;
  {
    const std::lock_guard lock(mutex_);
    give(chunks, outcome);
    finished_ = true;
  }
  more_.notify_one();
  if (thread_.joinable()) thread_.join();
  for (File& file : files_) {
    if (file.descriptor >= 0) ::close(std::exchange(file.descriptor, -1));
  }
  const std::lock_guard lock(mutex_);
  give(chunks, outcome);
  return outcome;
}

void CaptureWriter::write_until_finished() {
  std::unique_lock lock(mutex_);
  while (true) {
    more_.wait(lock, [this] { return finished_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    std::vector<Chunk> chunks = std::exchange(waiting_, {});
    lock.unlock();
    write_all(chunks);
    lock.lock();
  }
}

void CaptureWriter::write_all(std::vector<Chunk>& chunks) {
  for (Chunk& chunk : chunks) {
    File& file = files_[chunk.file];
    const bool first = file.error == 0;
    if (first) file.error = append(file, chunk.bytes);
    if (first && file.error != 0) take_back(file);
    const std::lock_guard lock(mutex_);
    outcome_.waiting_bytes -= chunk.bytes.size();
    if (file.error == 0) continue;
    if (outcome_.problem.empty()) {
      outcome_.problem =
          "cannot write " + file.path.string() + ": " + std::generic_category().message(file.error);
    }
    outcome_.failed.push_back(std::move(chunk));
  }
}

// 0, or what went wrong.
int CaptureWriter::append(File& file, const std::string& bytes) {
  if (file.descriptor < 0)
    file.descriptor = ::open(file.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file.descriptor < 0) return errno;
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t more = ::write(file.descriptor, bytes.data() + done, bytes.size() - done);
    if (more < 0 && errno != EINTR) return errno;
    if (more > 0) done += static_cast<std::size_t>(more);
  }
  file.bytes += bytes.size();
  return 0;
}

// What of a chunk is there. Best effort: readers say that a file is cut short, and show the rest.
void CaptureWriter::take_back(File& file) {
  if (file.descriptor < 0) return;
  if (::ftruncate(file.descriptor, static_cast<off_t>(file.bytes)) != 0) return;
  std::error_code ignored;
  if (file.bytes == 0) std::filesystem::remove(file.path, ignored);
}

}  // namespace causeway::wan_sim
