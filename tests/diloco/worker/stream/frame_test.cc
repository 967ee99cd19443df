// Where a worker's socket is, however long its path.
#include "diloco/worker/stream/frame.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"

namespace causeway::diloco {
namespace {

std::string address_of(const Descriptor& socket) {
  sockaddr_un address{};
  socklen_t size = sizeof address;
  EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return address.sun_path;
}

TEST(UnixSockets, OfAShortPathNeedNoProc) {
  const test::TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "s";
  const Descriptor door = listen_at(path);
  EXPECT_EQ(address_of(door), path.string());
  EXPECT_TRUE(connect_to(path).has_value());
}

TEST(UnixSockets, OfALongPathAreReachedThroughProc) {
  const test::TemporaryDirectory directory;
  const std::filesystem::path deep = directory.path() / std::string(200, 'd');
  EXPECT_FALSE(connect_to(deep / "s").has_value()) << "there is no such directory";
  std::filesystem::create_directories(deep);
  const Descriptor door = listen_at(deep / "s");
  EXPECT_TRUE(address_of(door).starts_with("/proc/self/fd/"));
  EXPECT_TRUE(connect_to(deep / "s").has_value());
}

TEST(UnixSockets, OfADirectoryThatIsNotThereAreNobodys) {
  const test::TemporaryDirectory directory;
  EXPECT_FALSE(connect_to(directory.path() / "none" / "s").has_value());
}

}  // namespace
}  // namespace causeway::diloco
