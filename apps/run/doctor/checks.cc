#include <fcntl.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <exception>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <spdlog/fmt/chrono.h>

#include "apps/run/doctor/checks.h"
#include "apps/run/doctor/room_need.h"
#include "apps/run/page/format.h"
#include "inter/base/file.h"
#include "inter/tls/pki.h"
#include "inter/tls/tls.h"

namespace causeway::run {
namespace {

constexpr int kSoonDays = 30;

Finding judge_validity(const std::string& subject, const std::filesystem::path& file,
                       const std::string& advice) {
  const inter::CertificateInfo info = inter::describe_certificate(file);
  const std::string text = fmt::format("{}: valid from {} to {}, {} days left", file.string(),
                                       info.not_before, info.not_after, info.days_left);
  return info.days_left < kSoonDays ? warn(subject, text, advice) : ok(subject, text);
}

}  // namespace

Findings check_credentials(const std::filesystem::path& certificates, const std::string& region) {
  const inter::Credentials files = inter::credentials_in(certificates, region);
  try {
    inter::make_tls_context(files, inter::TlsRole::server);
    inter::check_own_certificate(files, region, inter::Validity::required);
    return {judge_validity("certificate", files.certificate,
                           "renew it: `causeway certs renew " + region + "` where ca.key is"),
            judge_validity("authority", files.ca_certificate,
                           "make a new authority and new certificates for all regions")};
  } catch (const std::exception& error) {
    return {fail("certificate", error.what(),
                 "`causeway certs add-region` or `renew` where ca.key is; copy NAME.crt, NAME.key "
                 "and ca.crt here. This host's clock says " +
                     fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr))))};
  }
}

namespace {

constexpr int kWrites = 12;
constexpr std::size_t kWriteBytes = 64U << 10;
// Of a region: what is always there, and its spool, checkpoints and archive.
constexpr std::uint64_t kFilesMin = 100, kFilesWanted = 2'000;
constexpr double kSlowSync_s = 0.1;  // an agreement takes two of them, one after the other

std::string milliseconds(double seconds) {
  return format_fixed(1e3 * seconds, seconds < 0.01 ? 1 : 0) + " ms";
}

Finding judge_sync(const DiskFigures& disk, const Config& config) {
  const std::string text = "writing takes " + milliseconds(disk.sync_median_s) + ", at most " +
                           milliseconds(disk.sync_worst_s);
  const double election_s = std::chrono::duration<double>(config.sync.rules.election).count();
  const std::string advice =
      "put the region's directory on a faster disk (--directory), not on a "
      "network's; or raise sync.election_timeout_s";
  if (disk.sync_median_s > election_s / 4)
    return fail("disk speed", text + ": the leader would be taken for dead", advice);
  if (disk.sync_median_s > kSlowSync_s) return warn("disk speed", text, advice);
  return ok("disk speed", text);
}

Finding judge_room(const DiskFigures& disk, const Config& config,
                   const std::filesystem::path& directory) {
  const std::string free =
      format_bytes(static_cast<double>(disk.free_bytes)) + " are free in " + directory.string();
  const RoomNeed need = room_need(config);
  const auto text = [](std::uint64_t bytes) { return format_bytes(static_cast<double>(bytes)); };
  const std::string most = text(need.at_most()) + ": " + to_string(need);
  if (disk.free_bytes < need.at_least())
    return fail("disk room", free + ", and the run needs " + text(need.at_least()) + " at least",
                "make room, or name another place with --directory");
  if (disk.free_bytes < need.at_most())
    return warn("disk room", free + ", and the run may take up to " + most,
                std::string("make room, or lower sync.spool_gib") +
                    (need.archives ? ", or set ledger.keep = \"needed\"" : ""));
  return ok("disk room", free + ", the run takes up to " + most);
}

// Of some file systems nobody can say: they make inodes as they need them.
std::uint64_t free_files(const std::filesystem::path& directory) {
  struct statvfs disk {};
  const bool known = ::statvfs(directory.c_str(), &disk) == 0 && disk.f_files > 0;
  return known ? disk.f_favail : ~std::uint64_t{0};
}

Findings judge_files(const DiskFigures& disk, const std::filesystem::path& directory) {
  if (disk.free_files == ~std::uint64_t{0}) return {};
  const std::string text =
      format_count(disk.free_files) + " more files may be made in " + directory.string();
  const std::string advice =
      "remove files there that nobody needs, or name another disk (--directory): `df -i` shows its "
      "inodes";
  if (disk.free_files < kFilesMin) return {fail("disk files", text, advice)};
  if (disk.free_files < kFilesWanted) return {warn("disk files", text, advice)};
  return {ok("disk files", text)};
}

}  // namespace

DiskFigures look_at_disk(const std::filesystem::path& directory) {
  inter::create_private_directories(directory);
  const std::filesystem::path name = directory / "doctor.tmp";
  std::vector<double> seconds;
  {
    inter::File file(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    const std::vector<std::byte> bytes(kWriteBytes);
    for (int write = 0; write < kWrites; ++write) {
      const auto begin = std::chrono::steady_clock::now();
      file.write_at(write * bytes.size(), bytes);
      file.sync();
      seconds.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
  }
  std::filesystem::remove(name);
  std::ranges::sort(seconds);
  return {.free_bytes = std::filesystem::space(directory).available,
          .free_files = free_files(directory),
          .sync_median_s = seconds[seconds.size() / 2],
          .sync_worst_s = seconds.back()};
}

Findings judge_disk(const DiskFigures& disk, const Config& config,
                    const std::filesystem::path& directory) {
  Findings found{judge_room(disk, config, directory), judge_sync(disk, config)};
  std::ranges::move(judge_files(disk, directory), std::back_inserter(found));
  return found;
}

}  // namespace causeway::run
