#include "intra/data/data_reading.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "diloco/files/file_io.h"
#include "intra/base/error.h"

namespace causeway::intra {
namespace {

constexpr char kHeading[] = "causeway data digests, version 1\n";
constexpr char kSeal[] = "sha256 ";
// Clocks of file systems tick this often at the least.
constexpr std::int64_t kTick_ns = 2'000'000'000;
constexpr std::size_t kFilesMax = 100'000;  // of whatever runs there were in this directory

std::string seal(std::string_view text) {
  return kSeal + diloco::to_hex(diloco::sha256(std::as_bytes(std::span(text)))) + "\n";
}

}  // namespace

KeptDigests::KeptDigests(std::filesystem::path file) : file_(std::move(file)) {
  const std::optional<std::string> text = diloco::read_file(file_);
  if (text) parse(*text);
}

void KeptDigests::parse(const std::string& text) {
  const std::size_t end = text.rfind(kSeal);
  const bool whole = text.starts_with(kHeading) && end != std::string::npos &&
                     text.substr(end) == seal(std::string_view(text).substr(0, end));
  if (!whole) {
    spdlog::warn("{} is damaged, or another version's: all data is read again", file_.string());
    return;
  }
  std::istringstream lines(text.substr(sizeof kHeading - 1, end - (sizeof kHeading - 1)));
  std::string hex;
  FileStamp stamp;
  while (lines >> hex >> stamp.inode >> stamp.size >> stamp.modified_ns >> stamp.changed_ns) {
    if (const auto digest = diloco::from_hex(hex)) digests_[stamp] = *digest;
  }
}

std::optional<diloco::Digest> KeptDigests::find(const FileStamp& stamp) const {
  const auto found = digests_.find(stamp);
  return found == digests_.end() ? std::nullopt : std::optional(found->second);
}

void KeptDigests::add(const FileStamp& stamp, const diloco::Digest& digest,
                      std::int64_t read_at_ns) {
  if (std::max(stamp.modified_ns, stamp.changed_ns) + kTick_ns > read_at_ns) return;
  if (digests_.size() >= kFilesMax) digests_.clear();
  digests_[stamp] = digest;
}

void KeptDigests::save() const {
  std::ostringstream text;
  text << kHeading;
  for (const auto& [stamp, digest] : digests_) {
    text << diloco::to_hex(digest) << " " << stamp.inode << " " << stamp.size << " "
         << stamp.modified_ns << " " << stamp.changed_ns << "\n";
  }
  diloco::replace_file(file_, text.str() + seal(text.str()), diloco::Durability::visible);
}

namespace {

constexpr char kFile[] = "data-digests";

[[noreturn]] void refuse(const DataFile& file, const std::string& why) {
  throw std::system_error(Errc::bad_data, file.path.string() + " " + why);
}

void check_unchanged(const DataFile& file, int descriptor) {
  if (stamp_of(descriptor, file.path) == file.stamp) return;
  throw std::system_error(
      Errc::data_changed,
      file.path.string() +
          " changed while it was being read: start again when nothing writes to it");
}

// Of every byte; nothing if it was stopped.
std::optional<diloco::Digest> hash(const DataFile& file, const std::stop_token& stop) {
  const diloco::Descriptor descriptor(::open(file.path.c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor.get() < 0)
    refuse(file, "cannot be opened: " + std::generic_category().message(errno));
  check_unchanged(file, descriptor.get());
  const auto digest =
      diloco::file_hash(descriptor.get(), file.path, [&stop] { return stop.stop_requested(); });
  check_unchanged(file, descriptor.get());
  return digest;
}

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string in_words(std::uint64_t bytes) {
  return bytes < 10'000'000'000 ? fmt::format("{} MB", bytes / 1'000'000)
                                : fmt::format("{} GB", bytes / 1'000'000'000);
}

diloco::Digest digest_of(const std::vector<diloco::Digest>& parts) {
  return diloco::sha256(std::as_bytes(std::span(parts)));
}

}  // namespace

DataReading::DataReading(const DataOptions& options, const Dataset& own, const Dataset* common,
                         const std::filesystem::path& directory)
    : per_region_(options.per_region), kept_(directory / kFile), keeps_(!directory.empty()) {
  sets_.push_back({own.files(), own.sample()});
  if (common != nullptr) sets_.push_back({common->files(), common->sample()});
  for (const Set& set : sets_) {
    for (const DataFile& file : set.files) {
      const std::optional<diloco::Digest> known = keeps_ ? kept_.find(file.stamp) : std::nullopt;
      if (known) {
        read_[file.stamp] = *known;
      } else {
        unread_bytes_ += file.stamp.size;
      }
    }
  }
  if (unread_bytes_ == 0) return;
  if (unread_bytes_ <= options.digest_at_once_bytes) {
    read_all({});
    return;
  }
  spdlog::info(
      "reads {} of data for their digest beside the training; until then only a sample is compared "
      "with the other regions",
      in_words(unread_bytes_));
  thread_ = std::jthread([this](const std::stop_token& stop) { read_in_thread(stop); });
}

DataReading::~DataReading() = default;

void DataReading::read_all(const std::stop_token& stop) {
  for (const Set& set : sets_) {
    for (const DataFile& file : set.files) {
      if (read_.contains(file.stamp)) continue;  // only this thread writes
      const std::int64_t began_ns = now_ns();
      const std::optional<diloco::Digest> digest = hash(file, stop);
      if (!digest) return;
      kept_.add(file.stamp, *digest, began_ns);
      const std::lock_guard lock(mutex_);
      read_[file.stamp] = *digest;
    }
  }
  if (!keeps_) return;
  try {
    kept_.save();
  } catch (const std::system_error& error) {  // it is read again at the next start
    spdlog::warn("the digests of the data are not kept: {}", error.what());
  }
}

void DataReading::read_in_thread(const std::stop_token& stop) {
  ::setpriority(PRIO_PROCESS, 0, 19);  // of this thread: steps come first
  try {
    read_all(stop);
    if (!stop.stop_requested())
      spdlog::info("all data is read: {}", diloco::short_name(*digest_of(0)));
  } catch (const std::exception& error) {
    spdlog::error("only a sample of the data is compared with the other regions: {}", error.what());
  }
}

// As SHA-256 has it of the files' sizes and digests.
std::optional<diloco::Digest> DataReading::whole(const Set& set) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::byte> parts;
  const auto append = [&parts](const auto& value) {
    const auto bytes = std::as_bytes(std::span{&value, 1});
    parts.insert(parts.end(), bytes.begin(), bytes.end());
  };
  for (const DataFile& file : set.files) {
    const auto found = read_.find(file.stamp);
    if (found == read_.end()) return std::nullopt;
    append(file.stamp.size);
    append(found->second);
  }
  return diloco::sha256(parts);
}

// Of the sets from that one on.
std::optional<diloco::DataDigest> DataReading::digest_of(std::size_t first_set) const {
  if (first_set >= sets_.size()) return std::nullopt;
  std::vector<diloco::Digest> samples, wholes;
  for (std::size_t i = first_set; i < sets_.size(); ++i) {
    samples.push_back(sets_[i].sample);
    if (const auto digest = whole(sets_[i])) wholes.push_back(*digest);
  }
  diloco::DataDigest data{.sample = intra::digest_of(samples)};
  if (wholes.size() == samples.size()) data.whole = intra::digest_of(wholes);
  return data;
}

diloco::DataDigests DataReading::digests() const {
  return {.of_region = digest_of(0), .of_run = digest_of(per_region_ ? 1 : 0)};
}

}  // namespace causeway::intra
