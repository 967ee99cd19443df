// Both ends of a worker's session, over the Unix socket and over TLS alike: the server on the
// test's io_context thread, the ranks on threads of their own.
#include "diloco/worker_server.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <atomic>
#include <fstream>
#include <future>
#include <thread>

#include <asio/co_spawn.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/use_future.hpp>
#include <asio/write.hpp>

#include "diloco/error.h"
#include "inter/pki.h"
#include "tests/support/temporary_directory.h"

namespace causeway::diloco {
namespace {

bool keep(const std::string&) {
  return true;
}

int option(int socket, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  ::getsockopt(socket, level, name, &value, &size);
  return value;
}

// Welcomes every gathering, and answers each ready with the next scripted instruction.
class Script : public WorkerServerHandler {
 public:
  void on_gathered(const AttachRequest& rank_0,
                   const std::vector<std::uint32_t>& without) override {
    attached.push_back(rank_0);
    missing = without;
    server->welcome("run", false);
  }
  void on_worker_lost() override { ++lost; }
  void on_ready() override { answer(); }
  void on_contribute(const Contribution& contribution, std::span<const std::byte> bytes) override {
    contributions.push_back(contribution);
    payload.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    server->stored();
  }
  void on_applied(Round version, const Digest&) override { applied = version; }
  void on_snapshot(Round version, const Digest&, Descriptor file) override {
    snapshot_version = version;
    snapshot_file = std::move(file);
  }
  void on_report(const Progress& progress) override { reported = progress; }

  WorkerServer* server = nullptr;
  std::function<void()> answer = [] {};
  std::vector<AttachRequest> attached;
  std::vector<std::uint32_t> missing;  // when they gathered last
  std::vector<Contribution> contributions;
  std::string payload;
  Round applied = 0, snapshot_version = 0;
  Descriptor snapshot_file;
  Progress reported;
  std::atomic<int> lost = 0;
};

enum class Transport { unix_socket, tls };

class WorkerServerTest : public ::testing::TestWithParam<Transport> {
 protected:
  void start(std::uint32_t workers, std::chrono::milliseconds rank_wait = std::chrono::hours(1)) {
    // Far longer than a socket address can hold.
    const std::filesystem::path directory = directory_.path() / std::string(200, 'd');
    std::filesystem::create_directories(directory);
    socket_ = directory / "worker.sock";
    server_.emplace(context_.get_executor(),
                    WorkerServerOptions{.socket = socket_,
                                        .region = "eu",
                                        .workers = workers,
                                        .settings = "codec.feedback = true\n",
                                        .rank_wait = rank_wait},
                    script_);
    script_.server = &*server_;
    if (over_tls()) {
      certificates_ = directory_.path() / "certificates";
      inter::create_ca(certificates_, "test");
      inter::add_region(certificates_, "eu");
      port_ = server_->listen({"127.0.0.1", 0}, inter::credentials_in(certificates_, "eu"));
    }
    server_->start();
    thread_ = std::thread([this] { context_.run(); });
  }
  ~WorkerServerTest() override {
    if (thread_.joinable()) {
      asio::co_spawn(context_, server_->stop(), asio::use_future).get();
      work_.reset();
      thread_.join();
    }
  }

  virtual bool over_tls() const { return GetParam() == Transport::tls; }
  AttachRequest request(std::uint32_t rank, std::uint32_t world) const {
    return {.socket = over_tls() ? std::filesystem::path() : socket_,
            .region = "eu",
            .rank = rank,
            .world = world,
            .version = 3,
            .run_id = {},
            .coordinator = over_tls() ? "127.0.0.1:" + std::to_string(port_) : "",
            .certificates = certificates_};
  }
  std::unique_ptr<WorkerSession> attach(std::uint32_t rank, std::uint32_t world) const {
    return WorkerSession::attach(request(rank, world), keep);
  }
  // What the script saw is read on the server's thread.
  template <typename F>
  auto on_server(F f) {
    return asio::co_spawn(
               context_, [f]() -> asio::awaitable<std::invoke_result_t<F>> { co_return f(); },
               asio::use_future)
        .get();
  }

  test::TemporaryDirectory directory_;
  std::filesystem::path socket_, certificates_;
  std::uint16_t port_ = 0;
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{context_.get_executor()};
  Script script_;
  std::optional<WorkerServer> server_;
  std::thread thread_;
};

INSTANTIATE_TEST_SUITE_P(Over, WorkerServerTest,
                         testing::Values(Transport::unix_socket, Transport::tls),
                         [](const auto& tested) {
                           return tested.param == Transport::tls ? "Tls" : "UnixSocket";
                         });

class OverUnixSocket : public WorkerServerTest {
  bool over_tls() const override { return false; }
};

class OverTls : public WorkerServerTest {
 protected:
  bool over_tls() const override { return true; }
  // What attaching with the certificates of `directory` ends with.
  std::string refusal(const std::filesystem::path& directory) const {
    AttachRequest attach_request = request(0, 1);
    attach_request.certificates = directory;
    try {
      WorkerSession::attach(attach_request, keep);
    } catch (const std::system_error& error) {
      return error.what();
    }
    return "";
  }
};

TEST_P(WorkerServerTest, GathersAllRanksUnderAFreshName) {
  start(2);
  auto second = std::async(std::launch::async, [this] { return attach(1, 2); });
  const auto first = attach(0, 2);
  const auto other = second.get();
  EXPECT_EQ(first->attachment().generation, other->attachment().generation);
  EXPECT_EQ(first->attachment().run_id, "run");
  EXPECT_EQ(first->attachment().settings, "codec.feedback = true\n");
  EXPECT_FALSE(first->lost());
}

TEST_P(WorkerServerTest, EndsTheGatheringForAllWhenOneRankGoes) {
  start(2);
  auto second = std::async(std::launch::async, [this] { return attach(1, 2); });
  auto first = attach(0, 2);
  auto other = second.get();
  const std::string generation = first->attachment().generation;
  other.reset();
  try {
    first->next(keep);
    FAIL() << "the session goes on";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), Errc::coordinator_lost);
  }
  EXPECT_TRUE(first->lost());

  second = std::async(std::launch::async, [this] { return attach(1, 2); });
  first = attach(0, 2);
  EXPECT_NE(first->attachment().generation, generation);
  other = second.get();
  EXPECT_EQ(script_.lost, 1);
}

TEST_P(WorkerServerTest, GoesOnWithoutARankThatDoesNotComeInTime) {
  start(3, std::chrono::milliseconds(50));
  auto last = std::async(std::launch::async, [this] { return attach(2, 3); });
  const auto first = attach(1, 3);
  const auto other = last.get();
  EXPECT_EQ(first->attachment().rank, 0);
  EXPECT_EQ(other->attachment().rank, 1);
  EXPECT_EQ(first->attachment().world, 2);
  EXPECT_EQ(other->attachment().world, 2);
  on_server([&] {
    EXPECT_EQ(script_.missing, std::vector<std::uint32_t>{0});
    EXPECT_EQ(script_.attached.back().rank, 1) << "the first that is there speaks for the region";
    return 0;
  });
}

TEST_P(WorkerServerTest, ARankThatComesLateIsTakenInWhenTheOthersAskWhatToDo) {
  start(2, std::chrono::milliseconds(200));
  on_server([&] {
    script_.answer = [&] { server_->finish(3); };
    return 0;
  });
  auto early = attach(1, 2);
  EXPECT_EQ(early->attachment().world, 1);
  // Whoever stands alone asks until the other one is there.
  const auto together = [this](std::unique_ptr<WorkerSession> session, std::uint32_t rank) {
    while (!session || session->attachment().world < 2) {
      try {
        if (session) session->next(keep);
        if (!session) session = attach(rank, 2);
      } catch (const std::system_error& error) {
        EXPECT_EQ(error.code(), Errc::coordinator_lost);
        session.reset();
      }
    }
    return session;
  };
  auto late = std::async(std::launch::async, [&] { return together(nullptr, 0); });
  early = together(std::move(early), 1);
  const auto returned = late.get();
  EXPECT_EQ(early->attachment().rank, 1);
  EXPECT_EQ(returned->attachment().rank, 0);
  EXPECT_EQ(returned->attachment().generation, early->attachment().generation);
  on_server([&] {
    EXPECT_TRUE(script_.missing.empty());
    return 0;
  });
}

TEST_P(WorkerServerTest, ARestartedRankReplacesTheOldGathering) {
  start(1);
  const auto old = attach(0, 1);
  const auto fresh = attach(0, 1);
  EXPECT_TRUE(old->lost());
  EXPECT_FALSE(fresh->lost());
}

TEST_P(WorkerServerTest, RefusesAWorkerOfAnotherShape) {
  start(1);
  EXPECT_THROW(attach(0, 2), std::system_error);
  EXPECT_THROW(attach(1, 1), std::system_error);
}

TEST_P(WorkerServerTest, CarriesPayloadsAndSnapshotsBothWays) {
  start(1);
  const std::filesystem::path file = directory_.path() / "file";
  const std::string content(3'000'000, 'p');
  std::ofstream(file, std::ios::binary) << content;
  CommitRecord record{.run_id = "run", .round = 3, .participants = {}, .state = {}, .next_k = 1};
  for (const char* region : {"eu", "us"}) {
    record.participants.push_back({.region = region,
                                   .weight = 0.5F,
                                   .data_cursor = 0,
                                   .tokens = 0,
                                   .payload = {.hash = {}, .size_bytes = content.size()}});
  }
  const auto session = attach(0, 1);

  session->contribute({.run_id = "run", .region = "eu", .round = 3},
                      std::as_bytes(std::span(content)));
  on_server([&] {
    EXPECT_EQ(script_.contributions.size(), 1);
    EXPECT_EQ(script_.payload, content);
    script_.answer = [&] { server_->apply(record, {file, file}); };
    return 0;
  });
  const Instruction apply = session->next(keep);
  ASSERT_TRUE(std::holds_alternative<Apply>(apply));
  EXPECT_EQ(std::get<Apply>(apply).payloads.size(), 2);
  EXPECT_EQ(std::get<Apply>(apply).payloads[1].bytes().size(), content.size());
  EXPECT_EQ(std::get<Apply>(apply).payloads[1].bytes()[7], std::byte{'p'});

  session->applied(4, {});
  session->offer_snapshot(4, {}, file);
  session->report({.step = 12, .phase = "compute"});
  on_server([&] {
    script_.answer = [&] { server_->restore(9, {}, file, content.size()); };
    return 0;
  });
  const Instruction restore = session->next(keep);
  ASSERT_TRUE(std::holds_alternative<Restore>(restore));
  EXPECT_EQ(std::get<Restore>(restore).version, 9);
  EXPECT_EQ(std::get<Restore>(restore).snapshot.bytes().size(), content.size());
  on_server([&] {
    EXPECT_EQ(script_.applied, 4);
    EXPECT_EQ(script_.snapshot_version, 4);
    EXPECT_GE(script_.snapshot_file.get(), 0);
    EXPECT_EQ(script_.reported.step, 12);
    return 0;
  });
}

TEST_P(WorkerServerTest, CallsBackARegionThatTrainsOnByItself) {
  start(1);
  const auto session = attach(0, 1);
  on_server([&] {
    script_.answer = [&] { server_->continue_training({3, 50, 600, 75}); };
    return 0;
  });
  const Instruction instruction = session->next(keep);
  ASSERT_TRUE(std::holds_alternative<Continue>(instruction));
  const Continue& order = std::get<Continue>(instruction);
  EXPECT_EQ(order.round, 3);
  EXPECT_EQ(order.k, 50);
  EXPECT_EQ(order.data_cursor, 600);
  EXPECT_EQ(order.schedule_step, 75);
  EXPECT_FALSE(session->called_back());
  on_server([&] {
    server_->call_back();
    script_.answer = [&] { server_->collect(3); };
    return 0;
  });
  EXPECT_TRUE(session->called_back());
  ASSERT_TRUE(std::holds_alternative<Collect>(session->next(keep)));
  EXPECT_FALSE(session->called_back()) << "that was about the instruction before";
}

TEST_P(WorkerServerTest, ACallThatComesTooLateConcernsNobody) {
  start(1);
  const auto session = attach(0, 1);
  script_.answer = [&] {
    server_->call_back();
    server_->continue_training({3, 50, 600, 75});
  };
  ASSERT_TRUE(std::holds_alternative<Continue>(session->next(keep)));
  EXPECT_FALSE(session->called_back());
}

TEST_P(WorkerServerTest, ARegionThatSitsOutSendsNoBytes) {
  start(1);
  const auto session = attach(0, 1);
  session->contribute({.run_id = "run", .region = "eu", .round = 3, .sits_out = true}, {});
  on_server([&] {
    EXPECT_TRUE(script_.contributions.at(0).sits_out);
    EXPECT_EQ(script_.payload, "");
    return 0;
  });
}

TEST_P(WorkerServerTest, AShorterFileThanPromisedIsRefusedInsteadOfMapped) {
  start(1);
  const std::filesystem::path file = directory_.path() / "file";
  std::ofstream(file) << "short";
  script_.answer = [&] { server_->restore(1, {}, file, 4096); };
  const auto session = attach(0, 1);
  EXPECT_THROW(session->next(keep), std::system_error);
}

TEST_P(WorkerServerTest, SaysWhatIsWaitedForAndCanBeCancelled) {
  start(1);
  const auto session = attach(0, 1);
  script_.answer = [&] { server_->waiting_for("us to decide round 3"); };
  std::string said;
  EXPECT_THROW(session->next([&said](const std::string& what) {
    said = what;
    return what.find("decide") == std::string::npos;
  }),
               std::system_error);
  EXPECT_EQ(said, "us to decide round 3");
}

TEST_F(OverUnixSocket, OnlyItsOwnerCanReachTheSocket) {
  start(1);
  const auto permissions = std::filesystem::status(socket_).permissions();
  EXPECT_EQ(permissions, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(OverTls, AFileThatCannotBeSentToItsEndEndsTheSession) {
  start(1);
  const std::filesystem::path file = directory_.path() / "file";
  constexpr std::uint64_t kMoreThanSocketsHold = 256U << 20;
  std::ofstream(file).close();
  std::filesystem::resize_file(file, kMoreThanSocketsHold);
  const auto session = attach(0, 1);
  on_server([&] {
    server_->restore(9, {}, file, kMoreThanSocketsHold);
    std::filesystem::resize_file(file, 0);
    return 0;
  });
  EXPECT_THROW(session->next(keep), std::system_error);
}

TEST_F(OverTls, ACertificateOfAnotherRegionIsRefused) {
  start(1);
  inter::add_region(certificates_, "us");
  const std::filesystem::path disguised = directory_.path() / "disguised";
  std::filesystem::create_directories(disguised);
  for (const char* part : {"crt", "key"}) {
    std::filesystem::copy_file(certificates_ / (std::string("us.") + part),
                               disguised / (std::string("eu.") + part));
  }
  std::filesystem::copy_file(certificates_ / "ca.crt", disguised / "ca.crt");
  EXPECT_NE(refusal(disguised).find("certificate is for us"), std::string::npos);
  EXPECT_FALSE(attach(0, 1)->lost()) << "the region's own worker attaches all the same";
}

TEST_F(OverTls, ACertificateOfAnotherAuthorityIsRefused) {
  start(1);
  const std::filesystem::path foreign = directory_.path() / "foreign";
  inter::create_ca(foreign, "another run");
  inter::add_region(foreign, "eu");
  EXPECT_NE(refusal(foreign).find("certificate"), std::string::npos);
  // Its certificate, but it trusts our authority: only the server can refuse it.
  std::filesystem::copy_file(certificates_ / "ca.crt", foreign / "ca.crt",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_NE(refusal(foreign), "");
  EXPECT_FALSE(attach(0, 1)->lost());
}

TEST_F(OverTls, CertificatesAreRevokedAndRenewedWithoutARestart) {
  start(1);
  const std::filesystem::path stolen = directory_.path() / "stolen";
  std::filesystem::copy(certificates_, stolen);
  inter::revoke_region(certificates_, "eu");
  inter::renew_region(certificates_, "eu");
  EXPECT_NE(refusal(stolen).find("certificate revoked"), std::string::npos) << refusal(stolen);
  // Its list has the certificate that the door began with.
  EXPECT_EQ(refusal(certificates_), "") << "the door shows the new one";
}

TEST_F(OverTls, BothEndsNoticeAHostThatIsGone) {
  start(1);
  const auto session = attach(0, 1);
  int ends = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (peer.sin_family != AF_INET) continue;
    ++ends;
    EXPECT_EQ(option(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
    EXPECT_EQ(option(fd, IPPROTO_TCP, TCP_NODELAY), 1);
    EXPECT_LE(option(fd, IPPROTO_TCP, TCP_KEEPIDLE), 60) << "seconds until the first probe";
    EXPECT_LE(option(fd, IPPROTO_TCP, TCP_KEEPINTVL), 60);
    EXPECT_EQ(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 60'000) << "milliseconds";
  }
  EXPECT_EQ(ends, 2);
}

TEST_F(OverTls, PlaintextEndsAtTheDoor) {
  start(1);
  asio::io_context context;
  asio::ip::tcp::socket stranger(context);
  stranger.connect({asio::ip::make_address("127.0.0.1"), port_});
  asio::write(stranger, asio::buffer(std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n")));
  std::array<char, 4096> answer;
  std::error_code error;
  while (!error) stranger.read_some(asio::buffer(answer), error);
  EXPECT_FALSE(attach(0, 1)->lost());
}

TEST_F(OverTls, SilentStrangersGiveWayOldestFirst) {
  start(1);
  asio::io_context context;
  std::vector<asio::ip::tcp::socket> crowd;
  for (int i = 0; i < 65; ++i) {
    crowd.emplace_back(context).connect({asio::ip::make_address("127.0.0.1"), port_});
  }
  char byte = 0;
  std::error_code error;
  crowd.front().read_some(asio::buffer(&byte, 1), error);
  EXPECT_EQ(error, asio::error::eof);
  crowd.back().non_blocking(true);
  crowd.back().read_some(asio::buffer(&byte, 1), error);
  EXPECT_EQ(error, asio::error::would_block) << "who came last still has the time to shake hands";
  EXPECT_FALSE(attach(0, 1)->lost());
}

TEST_F(OverTls, AWorkerOfAnotherRegionIsToldSoBeforeItSaysAnything) {
  start(1);
  inter::add_region(certificates_, "us");
  AttachRequest wrong = request(0, 1);
  wrong.region = "us";
  try {
    WorkerSession::attach(wrong, keep);
    FAIL() << "it attached";
  } catch (const std::system_error& error) {
    EXPECT_NE(std::string(error.what()).find("coordinator of eu"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace causeway::diloco
