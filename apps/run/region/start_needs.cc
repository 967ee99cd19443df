#include "apps/run/region/start_needs.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>
#include <system_error>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include "apps/run/config/config.h"
#include "apps/run/region/own_process.h"
#include "diloco/files/file_io.h"
#include "inter/base/atomic_file.h"
#include "inter/base/error.h"
#include "inter/base/file.h"
#include "inter/mesh/resolve.h"
#include "inter/tls/pki.h"
#include "inter/tls/tls.h"
#include "intra/base/error.h"

namespace causeway::run {
namespace {

using asio::ip::tcp;

constexpr std::chrono::seconds kLook{1};
constexpr std::chrono::seconds kResolve{10};

void check_all_differ(std::vector<inter::Endpoint> listens, const std::string& listens_for) {
  std::erase_if(listens, [](const inter::Endpoint& one) { return one.port == 0; });
  for (auto one = listens.begin(); one != listens.end(); ++one) {
    if (std::find(one + 1, listens.end(), *one) != listens.end()) {
      throw ConfigError("this process would listen on " + to_string(*one) + " twice: for " +
                        listens_for + "; give each a port of its own");
    }
  }
}

using Meanwhile = std::function<void()>;

void check_port(const inter::Endpoint& bind, const Meanwhile& meanwhile) {
  try {
    asio::io_context unused;
    const tcp::acceptor acceptor(unused, inter::listening_address(bind, kResolve, meanwhile));
  } catch (const std::system_error& error) {
    if (error.code() == intra::Errc::interrupted) throw;
    inter::throw_cannot_listen(bind, error.code());
  }
}

// A name that no server knows is a mistake, which whoever uses it says.
void check_known(const std::string& host, const Meanwhile& meanwhile) {
  try {
    inter::wait_to_resolve({host, 1}, kResolve, meanwhile);  // any port
  } catch (const inter::LinkError& error) {
    const bool passes = error.code() == inter::Errc::deadline ||
                        error.code() == asio::error::host_not_found_try_again;
    if (!passes) return;
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again),
                            error.reason());
  }
}

// Or what will hold it: a start that is refused leaves no directory.
void check_writable(std::filesystem::path directory) {
  directory = std::filesystem::absolute(directory);
  if (const std::string dangling = inter::dangling_link_in(directory); !dangling.empty()) {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again),
                            dangling + ": mount or make it, or name another place");
  }
  while (!exists(directory) && directory != directory.parent_path())
    directory = directory.parent_path();
  const inter::AtomicFile trial(directory / "start");  // gone again, as nobody commits it
}

void check_free(const StartNeeds& needs) {
  if (needs.lock.empty() || !diloco::is_locked(needs.lock)) return;
  throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again),
                          needs.lock_is_held + diloco::lock_holder(needs.lock));
}

// They are mounted together: that one of them is missing says that the mount is, or half of it.
void check_there(const inter::Credentials& credentials) {
  using std::filesystem::exists;
  const bool there = exists(credentials.ca_certificate) && exists(credentials.certificate) &&
                     exists(credentials.key);
  try {
    inter::make_tls_context(credentials, inter::TlsRole::server);
  } catch (const std::system_error& error) {
    if (there) throw;
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again),
                            intra::message_of(error));
  }
  inter::check_dates(credentials);
}

// What asks for the end (stop_signals()), kept for as long as this lives: the first process of a
// container would lose it.
class StopSignals {
 public:
  StopSignals() {
    sigemptyset(&signals_);
    for (const int signal : stop_signals()) sigaddset(&signals_, signal);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  // Whether one came before `pause` is over.
  bool come_within(std::chrono::seconds pause) const {
    const timespec limit{.tv_sec = pause.count(), .tv_nsec = 0};
    int signal = 0;
    do {
      signal = sigtimedwait(&signals_, nullptr, &limit);
    } while (signal < 0 && errno == EINTR);
    return signal > 0;
  }

 private:
  sigset_t signals_{}, before_{};
};

}  // namespace

bool is_transient(const std::error_code& code) {
  return code == std::errc::resource_unavailable_try_again ||
         code == std::errc::read_only_file_system || code == inter::Errc::not_valid_today;
}

void check(const StartNeeds& needs, const std::function<void()>& meanwhile) {
  check_all_differ(needs.listens, needs.listens_for);
  check_writable(needs.directory);
  check_free(needs);
  if (needs.credentials) check_there(*needs.credentials);
  for (const inter::Endpoint& bind : needs.listens) check_port(bind, meanwhile);
  if (!needs.meets_at.empty()) check_known(needs.meets_at, meanwhile);
}

void wait_for(const StartNeeds& needs, std::chrono::seconds patience) {
  const StopSignals stop;
  const auto heed_signals = [&stop] {
    if (!stop.come_within(std::chrono::seconds(0))) return;
    throw std::system_error(intra::Errc::interrupted, "interrupted before it began");
  };
  const auto end = std::chrono::steady_clock::now() + patience;
  std::string waits_for;
  for (;;) {
    try {
      check(needs, heed_signals);
      break;
    } catch (const std::system_error& error) {
      if (error.code() == intra::Errc::interrupted) throw;
      if (!is_transient(error.code())) break;
      if (std::chrono::steady_clock::now() >= end) throw;
      if (const std::string lacks = intra::message_said_once(error); waits_for != lacks) {
        waits_for = lacks;
        spdlog::warn("{}: waits at most {} s for what is missing: {}", needs.who, patience.count(),
                     waits_for);
      }
    }
    if (stop.come_within(kLook)) {
      throw std::system_error(intra::Errc::interrupted,
                              "interrupted while it waited for this: " + waits_for);
    }
  }
  heed_signals();
  if (!waits_for.empty()) spdlog::info("{}: what was missing is there", needs.who);
}

}  // namespace causeway::run
