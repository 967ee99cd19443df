// Both ends of a worker's session, over the Unix socket and over TLS alike.
#include "diloco/worker/worker_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <fstream>
#include <vector>

#include <asio/post.hpp>

#include "diloco/files/error.h"
#include "diloco/worker/stream/frame.h"
#include "tests/diloco/worker/worker_server_fixture.h"
#include "tests/support/captured_log.h"

namespace causeway::diloco {
namespace {

INSTANTIATE_TEST_SUITE_P(Over, WorkerServerTest,
                         testing::Values(Transport::unix_socket, Transport::tls),
                         [](const auto& tested) {
                           return tested.param == Transport::tls ? "Tls" : "UnixSocket";
                         });

class OverUnixSocket : public WorkerServerTest {
  bool over_tls() const override { return false; }
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

TEST_P(WorkerServerTest, RefusesARankWithOtherSettingsAndGathersTheRest) {
  start(1);
  AttachRequest other = request(0, 1);
  other.settings = "inner.lr = 2\n";
  try {
    WorkerSession::attach(other, keep);
    FAIL() << "it was taken";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), Errc::config_mismatch);
    EXPECT_NE(std::string(error.what()).find("inner.lr = 1 here, 2 there"), std::string::npos);
  }
  other.settings = "inner.lr = 1\n";
  EXPECT_FALSE(WorkerSession::attach(other, keep)->lost());
  on_server([&] {
    EXPECT_EQ(script_.attached.size(), 1U);
    EXPECT_EQ(script_.attached.front().settings, "inner.lr = 1\n");
    return 0;
  });
}

TEST_P(WorkerServerTest, RefusesARankThatReadsOtherDataThanTheOthers) {
  start(2);
  AttachRequest first = request(0, 2), second = request(1, 2);
  first.data.of_region = DataDigest{.sample = {1}};
  second.data.of_region = DataDigest{.sample = {2}};
  std::promise<void> there;
  bool told = false;
  auto waiting = std::async(std::launch::async, [&] {
    return WorkerSession::attach(first, [&](const std::string& what) {
      const bool first_word = what.starts_with("rank 1") && !std::exchange(told, true);
      if (first_word) there.set_value();
      return true;
    });
  });
  there.get_future().get();
  try {
    const auto gathered = WorkerSession::attach(second, keep);
    FAIL() << "it was taken";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), Errc::config_mismatch);
    EXPECT_NE(std::string(error.what()).find("reads other training data"), std::string::npos);
  }
  second.data.of_region = DataDigest{.sample = {1}};
  const auto other = WorkerSession::attach(second, keep);
  EXPECT_EQ(waiting.get()->attachment().generation, other->attachment().generation);
}

// Of the same sample, and other bytes in between.
TEST_P(WorkerServerTest, RefusesARankThatTurnsOutToReadOtherData) {
  start(2);
  const DataDigest sample{.sample = {1}};
  AttachRequest first = request(0, 2), second = request(1, 2);
  first.data = second.data = {.of_region = sample, .of_run = sample};
  auto waiting = std::async(std::launch::async, [&] { return WorkerSession::attach(first, keep); });
  const auto other = WorkerSession::attach(second, keep);
  const auto leader = waiting.get();
  const auto read = [&](std::uint8_t whole) {
    const DataDigest data{.sample = {1}, .whole = Digest{whole}};
    return DataDigests{.of_region = data, .of_run = data};
  };
  script_.answer = [this] { script_.server->train({.round = 3, .k = 1}); };
  leader->data_read(read(7));
  EXPECT_TRUE(std::holds_alternative<Train>(leader->next(keep)));
  EXPECT_EQ(on_server([&] { return script_.data; }), read(7));
  other->data_read(read(8));
  EXPECT_THROW(
      {
        for (;;) leader->next(keep);
      },
      std::system_error)
      << "the gathering ends for all";
  EXPECT_TRUE(other->lost());
}

// A coordinator that loses every session is not asked as fast as it answers.
TEST_P(WorkerServerTest, AWorkerThatLostSessionsInARowPausesBeforeItAttaches) {
  start(1);
  AttachRequest lost = request(0, 1);
  lost.sessions_lost = 1;
  WorkerSession::attach(lost, keep);
  lost.sessions_lost = 2;
  try {
    WorkerSession::attach(lost, [](const std::string&) { return false; });
    ADD_FAILURE() << "it attached at once";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::operation_canceled);
  }
  on_server([&] { EXPECT_EQ(script_.attached.size(), 1U); });
}

TEST_P(WorkerServerTest, HearsWhatItsStateWasTrainedOn) {
  start(1);
  AttachRequest changed = request(0, 1);
  changed.data.of_region = DataDigest{.sample = {1}};
  changed.trained_on = DataDigest{.sample = {1}, .whole = Digest{2}};
  WorkerSession::attach(changed, keep);
  WorkerSession::attach(request(0, 1), keep);
  on_server([&] {
    ASSERT_EQ(script_.attached.size(), 2U);
    EXPECT_EQ(script_.attached.front().trained_on, changed.trained_on);
    EXPECT_FALSE(script_.attached.back().trained_on);
  });
}

TEST_P(WorkerServerTest, HearsWhatAProgramTrainsAndHowOftenItSaves) {
  start(1);
  AttachRequest program = request(0, 1);
  program.tensors = {{.name = "weight", .shape = {2, 3}}};
  program.save_rounds = 7;
  WorkerSession::attach(program, keep);
  on_server([&] {
    ASSERT_EQ(script_.attached.size(), 1U);
    EXPECT_EQ(script_.attached.front().tensors, program.tensors);
    EXPECT_EQ(script_.attached.front().save_rounds, 7U);
  });
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
  const test::CapturedLog log;
  start(1);
  const auto old = attach(0, 1);
  EXPECT_FALSE(log.has("a worker of rank 0 attaches in the place of one"));
  const auto fresh = attach(0, 1);
  EXPECT_TRUE(log.has("a worker of rank 0 attaches in the place of one")) << "two may run";
  EXPECT_TRUE(old->lost());
  EXPECT_FALSE(fresh->lost());
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

TEST_P(WorkerServerTest, RefusesAWorkerOfAnotherShape) {
  start(1);
  EXPECT_THROW(attach(0, 2), std::system_error);
  EXPECT_THROW(attach(1, 1), std::system_error);
}

TEST_P(WorkerServerTest, SaysWhyTheRegionTakesNoPartAnyMore) {
  for (const Errc kind : {Errc::config_mismatch, Errc::left_out, Errc::lineage}) {
    if (!server_) start(1);
    const auto session = attach(0, 1);
    on_server([&] { return server_->refuse("because", kind), 0; });
    try {
      session->next(keep);
      FAIL() << "it was given an instruction";
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), kind);
      EXPECT_TRUE(std::string(error.what()).starts_with("because")) << error.what();
    }
  }
}

TEST_P(WorkerServerTest, ARefusalIsHeardByAWorkerThatFindsOutWhileItSends) {
  start(1);
  const auto session = attach(0, 1);
  on_server([&] { return server_->refuse("because", Errc::left_out), 0; });
  while (!session->lost()) std::this_thread::yield();
  try {
    for (;;) session->applied(1, {});
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), Errc::left_out) << error.what();
  }
}

const std::string kContent(3'000'000, 'p');

std::filesystem::path file_of_content(const std::filesystem::path& directory) {
  std::ofstream(directory / "file", std::ios::binary) << kContent;
  return directory / "file";
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

TEST_F(OverUnixSocket, OnlyItsOwnerCanReachTheSocket) {
  start(1);
  const auto permissions = std::filesystem::status(socket_).permissions();
  EXPECT_EQ(permissions, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

}  // namespace
}  // namespace causeway::diloco
