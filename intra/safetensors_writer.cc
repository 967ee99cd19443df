#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "diloco/digest.h"
#include "intra/checkpoint.h"
#include "intra/safetensors_format.h"

namespace causeway::intra {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const char* what, const fs::path& file) {
  throw std::system_error(errno, std::generic_category(),
                          std::string("cannot ") + what + " " + file.string());
}

// A file that appears under its name only when it is complete.
class AtomicFile {
 public:
  explicit AtomicFile(const fs::path& file) : file_(file), temporary_(file.string() + ".tmp") {
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (descriptor_ < 0) fail("create", temporary_);
  }
  ~AtomicFile() {
    close(descriptor_);
    if (!committed_) unlink(temporary_.c_str());
  }
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("write", temporary_);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  void commit() {
    if (fsync(descriptor_) != 0) fail("sync", temporary_);
    if (rename(temporary_.c_str(), file_.c_str()) != 0) fail("rename a complete file to", file_);
    committed_ = true;
    sync_directory();
  }

 private:
  // The new name itself must survive a power loss, too.
  void sync_directory() const {
    const fs::path directory = file_.has_parent_path() ? file_.parent_path() : fs::path(".");
    const int descriptor = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) fail("open the folder", directory);
    const int status = fsync(descriptor);
    close(descriptor);
    if (status != 0) fail("sync the folder", directory);
  }

  fs::path file_, temporary_;
  int descriptor_ = -1;
  bool committed_ = false;
};

void check(std::span<const TensorView> tensors) {
  std::set<std::string> names;
  for (const TensorView& tensor : tensors) {
    const diloco::TensorSpec spec{tensor.name, tensor.shape};
    assert(spec.count() == tensor.values.size());
    assert(tensor.name != "__metadata__" && names.insert(tensor.name).second);
  }
}

std::string make_header(std::span<const TensorView> tensors,
                        const std::map<std::string, std::string>& metadata) {
  nlohmann::json header;
  header["__metadata__"] = metadata;
  std::size_t begin = 0;
  for (const TensorView& tensor : tensors) {
    const std::size_t end = begin + tensor.values.size_bytes();
    header[tensor.name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
    header["__metadata__"][std::string(kSafetensorsHashPrefix) + tensor.name] =
        diloco::to_hex(diloco::sha256(std::as_bytes(tensor.values)));
    begin = end;
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  // Tensors start on a multiple of eight, so that readers may map them.
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

void write_safetensors(const fs::path& file, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata) {
  check(tensors);
  const std::string header = make_header(tensors, metadata);
  assert(header.size() <= kSafetensorsHeaderBytesMax);
  const std::uint64_t length = header.size();
  AtomicFile out(file);
  out.write(std::as_bytes(std::span(&length, 1)));
  out.write(std::as_bytes(std::span(header)));
  for (const TensorView& tensor : tensors) out.write(std::as_bytes(tensor.values));
  out.commit();
}

}  // namespace causeway::intra
