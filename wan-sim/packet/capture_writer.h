// Appends to files on a thread of its own, for whoever must never wait for a disk.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace causeway::wan_sim {

class CaptureWriter {
 public:
  // Written as a whole or not at all, so that a file ends with a whole packet.
  struct Chunk {
    std::size_t file = 0;
    std::string bytes{};
    std::uint64_t packets = 0;
  };
  struct Outcome {
    std::uint64_t waiting_bytes = 0;
    std::string problem{};        // of the disk; empty: none so far
    std::vector<Chunk> failed{};  // told once
  };

  // A file is made with its first chunk.
  explicit CaptureWriter(std::vector<std::filesystem::path> files);
  ~CaptureWriter() { finish({}); }
  CaptureWriter(const CaptureWriter&) = delete;
  CaptureWriter& operator=(const CaptureWriter&) = delete;

  void start();
  // Takes them all and adds to `outcome`, or does nothing because the thread is just taking some:
  // whoever asks is in a hurry, and the thread, which is not, may have been put aside with the
  // lock.
  bool try_give(std::vector<Chunk>& chunks, Outcome& outcome);
  // Waits until these and all before them are written, or cannot be. The thread ends.
  Outcome finish(std::vector<Chunk> chunks);

 private:
  struct File {
    std::filesystem::path path;
    int descriptor = -1;
    int error = 0;  // the first; nothing is written behind a gap
    std::uint64_t bytes = 0;
  };
  void give(std::vector<Chunk>& chunks, Outcome& outcome);
  void write_until_finished();
  void write_all(std::vector<Chunk>& chunks);
  static int append(File& file, const std::string& bytes);
  static void take_back(File& file);

  std::vector<File> files_;  // the thread's own
  std::mutex mutex_;
  std::condition_variable more_;
  std::vector<Chunk> waiting_;  // under the mutex, as what follows
  Outcome outcome_;
  bool finished_ = false;
  std::thread thread_;
};

}  // namespace causeway::wan_sim
