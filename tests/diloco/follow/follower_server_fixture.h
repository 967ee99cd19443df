// A region's directory behind a follower server, over real TLS, and followers that ask it.
#pragma once

#include "diloco/follow/follower_server.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include "diloco/files/file_io.h"
#include "diloco/follow/follower_link.h"
#include "diloco/ledger/ledger.h"
#include "inter/door/tls_door.h"
#include "inter/frame/frame_body.h"
#include "inter/mesh/connection.h"
#include "inter/tls/signature.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/test_pki.h"

namespace causeway::diloco {

class FollowerServerTest : public ::testing::Test {
 protected:
  FollowerServerTest() {
    inter::add_follower(pki_.path(), "reader");
    inter::add_follower(pki_.path(), "other");
    ledger_.set_run_id("run-1");
    add_entry();
    payload_ = spool_.put(std::vector<std::byte>(300'000, std::byte{7}));
    serve(1'000'000'000);
  }
  ~FollowerServerTest() override {
    door_.reset();
    server_.reset();
  }

  void serve(std::uint64_t bytes_per_s) {
    door_.reset();
    server_.emplace(FollowerServerOptions{.owner = "a",
                                          .directory = directory_.path(),
                                          .credentials = pki_.credentials("a"),
                                          .settings = "train.k = 4\n",
                                          .bytes_per_s = bytes_per_s,
                                          .weights = {copy_with("image of "), patch_of_both}});
    door_.emplace(io_.get_executor(),
                  inter::TlsDoorOptions{.owner = "a", .credentials = pki_.credentials("a")},
                  [this](inter::TlsDoor::Guest guest) { server_->admit(std::move(guest)); });
    door_->listen({asio::ip::address_v4::loopback(), 0});
    door_->start();
  }
  // As a region would, but for a chunk that it sends again and again.
  asio::awaitable<void> repeat_a_chunk(std::shared_ptr<inter::TlsDoor::Guest> guest) {
    inter::Connection connection(std::move(guest->socket), std::move(guest->stream),
                                 inter::ConnectionSettings{1 << 20, {}, {}});
    try {
      co_await connection.read();
      const inter::Bytes accepted = inter::encode_empty(inter::FrameType::accept);
      co_await connection.write(accepted);
      co_await connection.read();
      inter::Bytes frame = inter::encode_chunk(payload_, 0, {});
      spool_.read(payload_, 0, std::span(frame).last(inter::chunk_bytes(payload_, 0)));
      for (int i = 0; i < 1000; ++i) co_await connection.write(frame);
    } catch (const inter::LinkError&) {  // the follower has left
    }
  }
  // Stand-ins: what an image and a patch hold is no matter here.
  static std::function<void(const std::filesystem::path&, const std::filesystem::path&)> copy_with(
      const std::string& words) {
    return [words](const std::filesystem::path& from, const std::filesystem::path& to) {
      replace_file(to, words + read_file(from).value(), Durability::visible);
    };
  }
  static void patch_of_both(const std::filesystem::path& from, const std::filesystem::path& to,
                            const std::filesystem::path& patch) {
    replace_file(patch, read_file(from).value() + " -> " + read_file(to).value(),
                 Durability::visible);
  }
  void add_entry() {
    const LogEntry entry{.term = ++term_, .body = {}};
    ledger_.append(std::span(&entry, 1));
  }

  // What the test does against the server. A future would be set by a thread of its own, perhaps
  // after run_one() has begun to wait.
  template <typename Result>
  struct Task {
    bool ended = false;
    std::exception_ptr failure;
    Result result;
  };
  template <typename Result>
  std::shared_ptr<Task<Result>> begin(asio::awaitable<Result> work) {
    const auto task = std::make_shared<Task<Result>>();
    asio::co_spawn(io_, std::move(work), [task](std::exception_ptr failure, Result result) {
      *task = {true, std::move(failure), std::move(result)};
    });
    io_.restart();
    return task;
  }
  template <typename Result>
  Result end(const std::shared_ptr<Task<Result>>& task) {
    while (!task->ended) io_.run_one();
    if (task->failure) std::rethrow_exception(task->failure);
    return std::move(task->result);
  }
  template <typename Result>
  Result run(asio::awaitable<Result> work) {
    return end(begin(std::move(work)));
  }
  inter::TlsContext context(const std::string& name) {
    return inter::make_tls_context(pki_.credentials(name), inter::TlsRole::client);
  }
  std::unique_ptr<FollowerLink> open(const std::string& name = "reader") {
    return run(FollowerLink::open(io_.get_executor(), {.self = name + ".follower",
                                                       .region = "a",
                                                       .address = {"127.0.0.1", door_->port()},
                                                       .context = context(name)}));
  }
  FollowerAnswer ask(FollowerLink& link, std::uint64_t first, bool wait = false) {
    return run(link.ask({.first = first, .wait = wait}));
  }
  // What the server's answer to these frames ends with, after the greeting.
  std::string end_of(const inter::Hello& hello, const inter::Bytes& frame,
                     const std::string& name = "reader") {
    return run(say(hello, frame, name));
  }
  asio::awaitable<std::string> say(inter::Hello hello, inter::Bytes frame, std::string name) {
    inter::Connection connection(asio::ip::tcp::socket(io_), context(name), {1 << 20, {}, {}});
    try {
      co_await connection.connect({asio::ip::address_v4::loopback(), door_->port()});
      co_await connection.handshake();
      const inter::Bytes greeting = encode(hello);
      co_await connection.write(greeting);
      inter::FrameView answer = co_await connection.read();
      if (answer.type == inter::FrameType::refuse)
        co_return "refused: " + inter::decode_reason(answer.body);
      co_await connection.write(frame);
      answer = co_await connection.read();
      co_return "answered with " + std::string(to_string(answer.type));
    } catch (const inter::LinkError& error) {
      co_return error.reason();
    }
  }
  static inter::Hello hello(inter::ConnectionKind kind = inter::ConnectionKind::follower,
                            const std::string& name = "reader.follower") {
    return {kind, {}, name, {}};
  }

  asio::io_context io_{1};
  test::TestPki pki_{{"a"}};
  test::TemporaryDirectory directory_, own_;
  inter::SigningKey key_{pki_.credentials("a").key};
  Ledger ledger_{directory_.path() / "ledger",
                 [this](const std::string& content) { return key_.sign(content); }};
  inter::Spool spool_{directory_.path() / "spool", 1U << 30};
  inter::Spool received_{own_.path(), 1U << 30};
  inter::BlobId payload_;
  Term term_ = 0;
  std::optional<FollowerServer> server_;
  std::optional<inter::TlsDoor> door_;
};

}  // namespace causeway::diloco
