// What servers load is never half of one version and half of another, whatever ends the follower.
#include "apps/run/follow/published_versions.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include <gtest/gtest.h>

#include "apps/run/config/config.h"
#include "tests/support/temporary_directory.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;

class PublishedVersionsTest : public ::testing::Test {
 protected:
  static PublishedVersions::Write model(const std::string& content) {
    return [content](const fs::path& directory) {
      std::ofstream(directory / "model.safetensors") << content;
    };
  }
  nlohmann::ordered_json publish(PublishedVersions& versions, diloco::Round version,
                                 const std::string& content) {
    diloco::Digest digest{};
    digest[0] = std::uint8_t(content.front());
    return versions.publish(version, digest, model(content), {{"version", version}});
  }
  std::string current() const {
    std::ifstream file(path() / "current" / "model.safetensors");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::size_t kept() const {
    return std::size_t(std::distance(fs::directory_iterator(path() / "versions"), {}));
  }
  const fs::path& path() const { return directory_.path(); }

  test::TemporaryDirectory directory_{test::in_memory()};
};

TEST_F(PublishedVersionsTest, TheNewestIsCurrentAndAFewStay) {
  PublishedVersions versions(path(), 2);
  EXPECT_TRUE(versions.current().is_null());
  for (diloco::Round version : {1, 2, 3}) publish(versions, version, std::to_string(version));
  EXPECT_EQ(current(), "3");
  EXPECT_EQ(kept(), 2U);
  EXPECT_EQ(versions.current()["version"], 3);
  // SHA-256 of "3".
  EXPECT_EQ(versions.current()["model_sha256"],
            "4e07408562bedb8b60ce05c1decfe3ad16b72230967de01f640b7e4729b49fce");
  std::ifstream beside(path() / "current.json");
  EXPECT_EQ(nlohmann::ordered_json::parse(beside), versions.current());
}

TEST_F(PublishedVersionsTest, AVersionThatWasTakenBackGivesWayToALowerOne) {
  PublishedVersions versions(path(), 1);
  publish(versions, 9, "void");
  publish(versions, 8, "right");
  EXPECT_EQ(current(), "right");
  publish(versions, 9, "again");
  EXPECT_EQ(current(), "again");
  EXPECT_EQ(kept(), 1U);
}

TEST_F(PublishedVersionsTest, AWriteThatFailsLeavesWhatWasThere) {
  PublishedVersions versions(path(), 2);
  publish(versions, 1, "one");
  const auto full = [](const fs::path& directory) {
    std::ofstream(directory / "model.safetensors") << "half";
    throw std::system_error(std::make_error_code(std::errc::no_space_on_device), "model");
  };
  EXPECT_THROW(versions.publish(2, {}, full, {}), std::system_error);
  EXPECT_EQ(current(), "one");
  EXPECT_EQ(kept(), 1U);
  publish(versions, 2, "two");
  EXPECT_EQ(current(), "two");
}

TEST_F(PublishedVersionsTest, WhatAKilledProcessLeftIsCleared) {
  {
    PublishedVersions versions(path(), 2);
    publish(versions, 1, "one");
  }
  fs::create_directories(path() / "versions" / "2-00000000.part");
  std::ofstream(path() / "versions" / "2-00000000.part" / "model.safetensors") << "half";
  fs::create_directory_symlink("versions/nowhere", path() / "current.part");
  PublishedVersions versions(path(), 2);
  EXPECT_EQ(current(), "one");
  EXPECT_EQ(kept(), 1U);
  publish(versions, 2, "two");
  EXPECT_EQ(current(), "two");
}

TEST_F(PublishedVersionsTest, ADirectoryOfSomebodyElsesIsRefused) {
  fs::create_directories(path() / "current");
  EXPECT_THROW(PublishedVersions(path(), 2), ConfigError);
}

}  // namespace
}  // namespace causeway::run
