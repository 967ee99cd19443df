// Meshes over loopback with real TLS, all in one io_context that a test drives until what it waits
// for has happened.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include "inter/mesh/mesh.h"
#include "tests/support/captured_log.h"
#include "tests/support/test_pki.h"

namespace causeway::inter {

using test::CapturedLog;

// One region: its spool, its mesh, and what its handler was told.
class Region : public MeshHandler {
 public:
  Region(asio::io_context& context, MeshOptions options, std::uint64_t spool_bytes_max = 1U << 30);

  std::string greeting() override { return process.empty() ? "greeting of " + name : process; }
  std::string process_of(const std::string& greeting) override {
    return greeting.starts_with("process ") ? greeting : "";
  }
  std::string judge_greeting(const std::string& peer, const std::string& greeting) override;
  std::string report(const std::string&) override { return shown; }
  void on_follower(TlsDoor::Guest guest) override { followers.push_back(guest.name); }
  void on_refused_by(const std::string& peer, const LinkError& refusal) override;
  void on_peer_up(const std::string& peer, const std::string& via) override;
  void on_peer_down(const std::string& peer, const std::string& reason) override;
  void on_message(const std::string& peer, const std::string& message) override;
  void on_blob(const std::string& from, const BlobId& id) override;

  void restart(asio::io_context& context, MeshOptions options);  // same spool, new mesh

  std::string name;     // of this region
  std::string process;  // "process 1"; empty: it does not say
  test::TemporaryDirectory directory;
  Spool spool;
  std::unique_ptr<Mesh> mesh;
  std::string verdict;  // of judge_greeting
  std::string judged;   // whom it is about; empty: everybody
  std::string shown;    // to observers
  std::vector<std::string> greetings, refusals, downs, messages;
  std::vector<std::string> followers;  // as certified
  std::vector<std::pair<std::string, BlobId>> blobs;
  std::map<std::string, std::string> ways;  // to each peer that came up: the third region, or ""
  int ups = 0;
};

// A TCP relay that a test can cut at a chosen byte.
class CutProxy : public std::enable_shared_from_this<CutProxy> {
 public:
  CutProxy(asio::io_context& context, std::uint16_t target);

  void accept();  // begins
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  void cut_after(std::uint64_t bytes);  // more, towards the target: then every connection is reset
  // After so many bytes in all, towards the target: the connection that brings the next one is
  // reset, unless it is the first (control). May be called several times.
  void cut_one_after(std::uint64_t bytes) { cuts_of_one_.push_back(bytes); }
  // What went towards the target over the first connection.
  const std::string& recorded() const { return recorded_; }
  void stall() { stalled_ = true; }  // nothing passes any more; connections stay open
  // The first connection (control) alone; the others get ever `pause` a piece of up to 16 KiB on.
  void stall_first(std::chrono::milliseconds pause) {
    first_stalled_ = true;
    pause_ = pause;
  }
  // What goes towards the target is taken and lost, on all connections of now but the first.
  void swallow();
  void resume();  // what was stalled goes on where it was
  // As a path that drops large packets: what becomes of connections that have large segments. But
  // with stall_all the first one lives on, as its messages are small.
  enum class Large { pass, stall, stall_all, reset_when_used };
  void treat_large(Large how) { large_ = how; }
  void close();

 private:
  struct Pipe;
  struct Stalled {
    std::shared_ptr<Pipe> pipe;
    bool forward;
    std::error_code error;
    std::size_t size;
  };
  void pump(const std::shared_ptr<Pipe>& pipe, bool forward);
  void pass(const Stalled& read);
  void cut();
  void pump_on(const std::shared_ptr<Pipe>& pipe, bool forward);
  bool cut_one(Pipe& pipe);
  bool stalls(const Pipe& pipe) const;
  bool resets(Pipe& pipe, std::size_t size) const;

  asio::io_context& context_;
  asio::ip::tcp::acceptor acceptor_;
  std::uint16_t target_;
  std::vector<std::weak_ptr<Pipe>> pipes_;
  std::vector<Stalled> stalled_pipes_;
  std::uint64_t cut_in_ = ~0ULL;
  std::uint64_t forwarded_bytes_ = 0;
  std::string recorded_;
  std::vector<std::uint64_t> cuts_of_one_;
  bool stalled_ = false;
  bool first_stalled_ = false;
  std::chrono::milliseconds pause_{0};
  Large large_ = Large::pass;
};

class MeshTest : public testing::Test {
 protected:
  ~MeshTest() override;

  // Quick to notice and to return, so that tests are; the deadlines stay far above what a busy
  // machine needs.
  MeshOptions options(const std::string& self);

  Region& add(MeshOptions options, std::uint64_t spool_bytes_max = 1U << 30);
  Region& add(const std::string& self) { return add(options(self)); }
  // "a" and "b" with one link, started; "a" dials `port` if that is not 0.
  void start_pair(std::uint16_t port = 0);
  void stop(Mesh& mesh);

  static void point(MeshOptions& from, const std::string& to, std::uint16_t port) {
    from.peers[to] = {"127.0.0.1", port};
  }

  // Runs the context until `done` holds. False after a minute.
  bool run_until(const std::function<bool()>& done);

  test::TestPki pki_{{"a", "b", "c"}};
  asio::io_context context_;
  CapturedLog log_;
  std::vector<std::unique_ptr<Region>> regions_;
};

std::vector<std::byte> make_bytes(std::size_t size, unsigned seed = 1);

}  // namespace causeway::inter
