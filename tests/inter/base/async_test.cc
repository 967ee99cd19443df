#include "inter/base/async.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <future>

#include <gtest/gtest.h>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/use_future.hpp>

#include "tests/support/temporary_directory.h"

namespace causeway::inter {
namespace {

using asio::local::stream_protocol;

// As long as it lives, this process gets no more file descriptors.
class NoDescriptors {
 public:
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int lowest_free = ::dup(0);
    ::close(lowest_free);
    const rlimit none{static_cast<rlim_t>(lowest_free), before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

// One client knocks.
struct AcceptAll : testing::Test {
  const test::TemporaryDirectory directory;
  const stream_protocol::endpoint endpoint{(directory.path() / "socket").string()};
  asio::io_context context;
  stream_protocol::acceptor acceptor{context, endpoint};
  stream_protocol::socket client{context};
  int served = 0;
  const std::function<void(stream_protocol::socket)> serve = [this](stream_protocol::socket) {
    ++served;
    acceptor.close();
  };

  AcceptAll() { client.connect(endpoint); }
  std::future<void> accept(std::chrono::milliseconds pause) {
    return asio::co_spawn(context, accept_all(acceptor, "here", serve, pause), asio::use_future);
  }
};

TEST_F(AcceptAll, PausesWhenThereAreNoDescriptors) {
  const auto ended = accept(std::chrono::hours(1));
  const NoDescriptors none;
  EXPECT_LT(::dup(0), 0);
  context.poll();
  EXPECT_EQ(served, 0);
  EXPECT_EQ(context.poll(), 0) << "it tries again without a pause";
}

TEST_F(AcceptAll, GoesOnWhenThereAreDescriptorsAgain) {
  auto ended = accept(std::chrono::milliseconds(1));
  {
    const NoDescriptors none;
    EXPECT_LT(::dup(0), 0);
    context.poll();
    EXPECT_EQ(served, 0);
  }
  context.run();
  ended.get();
  EXPECT_EQ(served, 1);
}

}  // namespace

}  // namespace causeway::inter
