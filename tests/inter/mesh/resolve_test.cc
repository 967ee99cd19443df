// A name server that does not answer holds up nobody but those who asked, and those not for long.
#include "inter/mesh/resolve.h"

#include <dlfcn.h>
#include <netdb.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include "inter/base/error.h"

namespace {

constexpr std::string_view kSilent = "silent.test";

// Look-ups of kSilent end when the test says so.
class NameServer {
 public:
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return answers_; });
    ++answered_;
    changed_.notify_all();
  }
  void answer(int lookups) {
    std::unique_lock lock(mutex_);
    answers_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return answered_ == lookups; });
    answers_ = false;
    answered_ = 0;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool answers_ = false;
  int answered_ = 0;
};

NameServer& name_server() {
  static NameServer server;
  return server;
}

}  // namespace

// In place of the C library's, for this whole program.
extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  if (host != nullptr && host == kSilent) {
    name_server().wait();
    return EAI_FAIL;
  }
  static const auto real =
      reinterpret_cast<decltype(&::getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  return real(host, service, hints, found);
}

namespace causeway::inter {
namespace {

using testing::HasSubstr;
using Addresses = std::vector<asio::ip::tcp::endpoint>;

constexpr std::chrono::milliseconds kShort{10};
constexpr std::chrono::hours kLong{1};

// Of one look-up on `context`.
struct Asked {
  Asked(asio::io_context& context, const std::string& host, std::chrono::milliseconds limit,
        std::uint16_t port = 80) {
    asio::co_spawn(context, resolve({host, port}, limit),
                   [this](const std::exception_ptr& failure, Addresses addresses) {
                     ended = true;
                     found = std::move(addresses);
                     try {
                       if (failure) std::rethrow_exception(failure);
                     } catch (const LinkError& error) {
                       code = error.code();
                       reason = error.reason();
                     }
                   });
  }
  bool ended = false;
  Addresses found;
  std::error_code code;
  std::string reason;
};

TEST(Resolve, ANumericAddressNeedsNoNameServer) {
  asio::io_context context{1};
  Asked v6(context, "::1", kLong), v4(context, "127.0.0.1", kLong);
  context.run();
  ASSERT_EQ(v6.found.size() + v4.found.size(), 2U);
  EXPECT_TRUE(v6.found[0].address().is_v6());
  EXPECT_EQ(v4.found[0], asio::ip::tcp::endpoint(asio::ip::make_address("127.0.0.1"), 80));
}

// A file whose regions have no `listen`, as `causeway init` writes it for `causeway simulate`.
TEST(Resolve, WithoutAPortSaysWhatTheFileLacks) {
  asio::io_context context{1};
  const Asked asked(context, "127.0.0.1", kLong, 0);
  context.run();
  EXPECT_EQ(asked.code, Errc::bad_address);
  EXPECT_THAT(asked.reason, HasSubstr("nobody can dial port 0: give the region a port"));
}

TEST(Resolve, OneNameWaitsForNoOther) {
  asio::io_context context{1};
  Asked silent(context, std::string(kSilent), kLong);
  Asked local(context, "localhost", kLong);
  while (!local.ended) context.run_one();
  EXPECT_FALSE(local.found.empty()) << local.reason;
  EXPECT_FALSE(silent.ended);
  name_server().answer(1);
  context.run();
  EXPECT_TRUE(silent.ended);
  EXPECT_THAT(silent.reason, HasSubstr("cannot look up silent.test: "));
}

TEST(Resolve, NobodyWaitsForANameServerBeyondTheLimit) {
  {
    asio::io_context context{1};
    Asked silent(context, std::string(kSilent), kShort);
    context.run();
    EXPECT_EQ(silent.code, Errc::deadline);
    EXPECT_EQ(silent.reason, "cannot look up silent.test: no answer within 0.0 s");
  }
  EXPECT_THROW(wait_to_resolve({std::string(kSilent), 80}, kShort), LinkError);
  EXPECT_THROW(listening_address({std::string(kSilent), 80}, kShort), LinkError);
  name_server().answer(3);  // to nobody
}

TEST(Resolve, AnAnswerMayComeAfterWhoAskedIsGone) {
  {
    asio::io_context context{1};
    Asked silent(context, std::string(kSilent), kLong);
    context.poll();
  }
  name_server().answer(1);
}

TEST(Resolve, WhoWaitsMayGiveUp) {
  const auto give_up = [] { throw std::runtime_error("no more"); };
  EXPECT_THROW(wait_to_resolve({std::string(kSilent), 80}, kLong, give_up), std::runtime_error);
  name_server().answer(1);
}

TEST(Resolve, ListensAtTheAddressOfANameOrAtAny) {
  EXPECT_TRUE(listening_address({"localhost", 0}, kLong).address().is_loopback());
  EXPECT_TRUE(listening_address({"", 80}, kLong).address().is_unspecified());
}

TEST(Resolve, WaitingFindsWhatANameHas) {
  EXPECT_FALSE(wait_to_resolve({"localhost", 80}, kLong).empty());
  EXPECT_EQ(wait_to_resolve({"127.0.0.1", 80}, kShort).size(), 1U);
}

}  // namespace
}  // namespace causeway::inter
