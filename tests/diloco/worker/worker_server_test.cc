// Both ends of a worker's session, over the Unix socket and over TLS alike.
#include "diloco/worker/worker_server.h"

#include <dlfcn.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <utility>
#include <vector>

#include "diloco/files/error.h"
#include "diloco/worker/last_word.h"
#include "diloco/worker/stream/frame.h"
#include "tests/diloco/worker/worker_server_fixture.h"
#include "tests/support/captured_log.h"

namespace {

thread_local int next_send_fails_with = 0;  // an errno

}  // namespace

// In place of the C library's, for this whole program.
extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  static const auto real = reinterpret_cast<decltype(&::sendmsg)>(::dlsym(RTLD_NEXT, "sendmsg"));
  if (next_send_fails_with == 0) return real(socket, message, flags);
  errno = std::exchange(next_send_fails_with, 0);
  return -1;
}

namespace causeway::diloco {
namespace {

INSTANTIATE_TEST_SUITE_P(Over, WorkerServerTest, both_transports(), name_of);

class OverUnixSocket : public WorkerServerTest {
  bool over_tls() const override { return false; }
};

const std::string kContent(3'000'000, 'p');

std::filesystem::path file_of_content(const std::filesystem::path& directory) {
  std::ofstream(directory / "file", std::ios::binary) << kContent;
  return directory / "file";
}

// Its region was removed while its coordinator was here, and added again with one elsewhere. A lost
// connection would end the worker, as if this one had left.
TEST_P(WorkerServerTest, AWorkerThatIsAttachedForgetsWhatAnotherCoordinatorSaidHere) {
  start(1);
  AttachRequest to = request(0, 1);
  if (over_tls()) to.socket = directory_.path() / "worker.sock";
  const std::filesystem::path here = to.socket.parent_path();
  leave_last_word(here, {"run", "removed", Errc::left_out});
  const auto session = WorkerSession::attach(to, keep);
  EXPECT_FALSE(last_word(here));
}

TEST_P(WorkerServerTest, CarriesPayloadsBothWays) {
  start(1);
  const std::filesystem::path file = file_of_content(directory_.path());
  CommitRecord record{.run_id = "run", .round = 3, .participants = {}, .state = {}, .next_k = 1};
  for (const char* region : {"eu", "us"}) {
    record.participants.push_back({.region = region,
                                   .weight = 0.5F,
                                   .data_cursor = 0,
                                   .tokens = 0,
                                   .payload = {.hash = {}, .size_bytes = kContent.size()}});
  }
  const auto session = attach(0, 1);

  session->contribute({.run_id = "run", .region = "eu", .round = 3},
                      SealedBytes(std::as_bytes(std::span(kContent))));
  on_server([&] {
    EXPECT_EQ(script_.contributions.size(), 1);
    EXPECT_EQ(script_.payload, kContent);
    script_.answer = [&] { server_->apply(record, {file, file}); };
    return 0;
  });
  const Instruction apply = session->next(keep);
  ASSERT_TRUE(std::holds_alternative<Apply>(apply));
  EXPECT_EQ(std::get<Apply>(apply).payloads.size(), 2);
  EXPECT_EQ(std::get<Apply>(apply).payloads[1].bytes().size(), kContent.size());
  EXPECT_EQ(std::get<Apply>(apply).payloads[1].bytes()[7], std::byte{'p'});
}

// The worker would hand it over again and again.
TEST_P(WorkerServerTest, RefusesAContributionThatCannotBeWithTheReason) {
  start(1);
  const auto session = attach(0, 1);
  Contribution made{.run_id = "run", .region = "eu", .round = 3};
  made.compute_s = -1;
  try {
    session->contribute(made, SealedBytes(std::as_bytes(std::span(kContent))));
    session->next(keep);
    ADD_FAILURE() << "it was taken";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), Errc::malformed);
    EXPECT_NE(std::string(error.what()).find("its contribution: "), std::string::npos)
        << error.what();
  }
}

// A record of many regions, or of much late work, lists more than the kernel passes on at once.
TEST_P(WorkerServerTest, CarriesMorePayloadsThanOneFrameTakes) {
  start(1);
  CommitRecord record{.run_id = "run", .round = 3, .participants = {}, .state = {}, .next_k = 1};
  std::vector<std::filesystem::path> files;
  for (std::uint32_t i = 0; i < 2 * kFrameDescriptorsMax + 44; ++i) {
    const std::string content = "payload " + std::to_string(i);
    files.push_back(directory_.path() / content);
    std::ofstream(files.back(), std::ios::binary) << content;
    record.participants.push_back({.region = "eu",
                                   .round = i / 16,
                                   .part = i % 16,
                                   .payload = {.hash = {}, .size_bytes = content.size()}});
  }
  record.round = record.participants.back().round;
  const auto session = attach(0, 1);
  session->contribute({.run_id = "run", .region = "eu", .round = 3},
                      SealedBytes(std::as_bytes(std::span(kContent))));
  on_server([&] {
    script_.answer = [&] { server_->apply(record, files); };
    return 0;
  });
  const Instruction apply = session->next(keep);
  ASSERT_TRUE(std::holds_alternative<Apply>(apply));
  const auto& payloads = std::get<Apply>(apply).payloads;
  ASSERT_EQ(payloads.size(), files.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::span<const std::byte> bytes = payloads[i].bytes();
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    EXPECT_EQ(text, "payload " + std::to_string(i));
  }
}

TEST_P(WorkerServerTest, CarriesSnapshotsBothWays) {
  start(1);
  const std::filesystem::path file = file_of_content(directory_.path());
  const auto session = attach(0, 1);

  session->applied(4, {});
  session->offer_snapshot(4, {}, file);
  Progress progress;
  progress.set_step(12);
  progress.set_phase("compute");
  session->report(progress);
  on_server([&] {
    script_.answer = [&] { server_->restore(9, {}, file, kContent.size()); };
    return 0;
  });
  const Instruction restore = session->next(keep);
  ASSERT_TRUE(std::holds_alternative<Restore>(restore));
  EXPECT_EQ(std::get<Restore>(restore).version, 9);
  EXPECT_EQ(std::get<Restore>(restore).snapshot.bytes().size(), kContent.size());
  on_server([&] {
    EXPECT_EQ(script_.applied, 4);
    EXPECT_EQ(script_.snapshot_version, 4);
    EXPECT_GE(script_.snapshot_file.get(), 0);
    EXPECT_EQ(script_.reported.step(), 12);
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

TEST_P(WorkerServerTest, AWorkerSaysHowManyStepsItTookWhenItAsks) {
  start(1);
  const auto session = attach(0, 1);
  script_.answer = [&] { server_->collect(3); };
  ASSERT_TRUE(std::holds_alternative<Collect>(session->next(keep, 70)));
  EXPECT_EQ(on_server([&] { return script_.steps; }), 70U);
}

// It may have failed to write its result. The coordinator would end, and nobody help it to try
// again.
TEST_P(WorkerServerTest, AWorkerThatWasToldToFinishIsDoneOnceItSaysSo) {
  start(1);
  on_server([&] { script_.answer = [this] { server_->finish(3); }; });
  for (const char* last : {"evaluate", kPhaseDone}) {
    const int lost = script_.lost;
    auto session = attach(0, 1);
    EXPECT_TRUE(std::holds_alternative<Finish>(session->next(keep)));
    Progress progress;
    progress.set_phase(last);
    session->report(progress);
    session.reset();
    while (script_.lost == lost) std::this_thread::yield();
    EXPECT_EQ(on_server([&] { return script_.reported.phase(); }), last);
  }
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

TEST_P(WorkerServerTest, APayloadThatFindsNoRoomIsNotStoredAndTheSessionGoesOn) {
  start(1);
  const auto session = attach(0, 1);
  const std::string content(1'000, 'p');
  on_server([&] {
    script_.room = false;
    script_.answer = [&] {
      script_.room = true;
      server_->train({.round = 3, .k = 4, .data_cursor = 0});
    };
    return 0;
  });
  const Contribution made{.run_id = "run", .region = "eu", .round = 3};
  EXPECT_FALSE(session->contribute(made, SealedBytes(std::as_bytes(std::span(content)))));
  ASSERT_TRUE(std::holds_alternative<Train>(session->next(keep)));
  EXPECT_TRUE(session->contribute(made, SealedBytes(std::as_bytes(std::span(content)))));
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

// Blocks until the server closes it.
bool is_closed_by_server(const Descriptor& socket) {
  pollfd entry{.fd = socket.get(), .events = POLLIN, .revents = 0};
  char byte = 0;
  return ::poll(&entry, 1, 60'000) == 1 && ::recv(socket.get(), &byte, 1, 0) == 0;
}

TEST_F(OverUnixSocket, WhoDoesNotAttachGivesWayOldestFirst) {
  start(1);
  std::vector<Descriptor> silent;
  for (int i = 0; i < 66; ++i) silent.push_back(connect_to(socket_).value());
  EXPECT_TRUE(is_closed_by_server(silent[0])) << "one rank and 64 more may wait";
  EXPECT_FALSE(attach(0, 1)->lost());
  EXPECT_TRUE(is_closed_by_server(silent[1]));
  char byte = 0;
  EXPECT_EQ(::recv(silent[2].get(), &byte, 1, MSG_DONTWAIT), -1) << "it still has time";
}

TEST_F(OverUnixSocket, WhoDoesNotAttachInTimeIsClosedAndWhoDidMayBeSilent) {
  attach_deadline_ = std::chrono::milliseconds(300);
  start(1);
  const auto session = attach(0, 1);
  const Descriptor silent = connect_to(socket_).value();
  EXPECT_TRUE(is_closed_by_server(silent));
  EXPECT_FALSE(session->lost());
}

// The kernel lacks memory, or too many descriptors are under way. Both would wait for ever.
TEST_F(OverUnixSocket, AWorkerThatAMessageCannotBeSentToSeesTheEndAndMayAttachAgain) {
  start(1);
  for (const int error : {ENOBUFS, ETOOMANYREFS}) {
    const int lost = script_.lost;
    script_.answer = [this, error] {
      next_send_fails_with = error;
      server_->train({.round = 3, .k = 4, .data_cursor = 0});
    };
    auto session = attach(0, 1);
    int looks = 0;
    try {
      session->next([&looks](const std::string&) { return ++looks < 20; });
      ADD_FAILURE() << "an order came that was not sent";
    } catch (const std::system_error& failure) {
      EXPECT_EQ(failure.code(), Errc::coordinator_lost) << failure.what();
    }
    session.reset();
    while (script_.lost == lost) std::this_thread::yield();
  }
  script_.answer = [this] { server_->collect(3); };
  EXPECT_TRUE(std::holds_alternative<Collect>(attach(0, 1)->next(keep)));
}

// They could not arrive, and would be kept, with their files, for as long as the worker computes.
TEST_F(OverUnixSocket, WhatFollowsAMessageThatCannotBeSentIsDroppedWithoutAnotherWord) {
  const test::CapturedLog log;
  start(1);
  script_.answer = [this] {
    next_send_fails_with = ENOBUFS;
    for (const Round round : {3, 4, 5}) server_->collect(round);
  };
  try {
    attach(0, 1)->next(keep);
    ADD_FAILURE() << "an order came that was not sent";
  } catch (const std::system_error& failure) {
    EXPECT_EQ(failure.code(), Errc::coordinator_lost) << failure.what();
  }
  while (script_.lost == 0) std::this_thread::yield();
  EXPECT_EQ(log.count("a worker's connection broke"), 1U) << log.text();
}

TEST_F(OverUnixSocket, OnlyItsOwnerCanReachTheSocket) {
  start(1);
  const auto permissions = std::filesystem::status(socket_).permissions();
  EXPECT_EQ(permissions, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

}  // namespace
}  // namespace causeway::diloco
