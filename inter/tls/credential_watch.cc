#include "inter/tls/credential_watch.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <system_error>

namespace causeway::inter {

CredentialWatch::CredentialWatch(std::string owner, Credentials files,
                                 std::chrono::milliseconds retry)
    : owner_(std::move(owner)), files_(std::move(files)), retry_(retry), seen_(look()) {}

bool CredentialWatch::reload(const std::function<void()>& load) {
  const Stamps now = look();
  if (now == seen_) return false;
  const auto time = std::chrono::steady_clock::now();
  if (now == failed_ && time < failed_at_ + retry_) return false;
  seen_ = {};
  failed_ = now;
  failed_at_ = time;
  try {
    load();
  } catch (const std::system_error& error) {
    if (const auto more = failures_.note(error.what()))
      spdlog::warn("{}: keeping the old credentials: {}{}", owner_, error.what(), *more);
    return false;
  }
  seen_ = now;
  failed_.reset();
  failures_.reset();
  spdlog::info("{}: credentials were replaced; new connections use them", owner_);
  return true;
}

CredentialWatch::Stamps CredentialWatch::look() const {
  return {stamp(files_.ca_certificate), stamp(files_.certificate), stamp(files_.key),
          stamp(files_.revocations)};
}

CredentialWatch::Stamp CredentialWatch::stamp(const std::filesystem::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return {};
  return {status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_size, status.st_ino};
}

}  // namespace causeway::inter
