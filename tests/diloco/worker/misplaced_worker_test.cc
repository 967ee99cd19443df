// Workers that came to the wrong place: they are told, and do not wait for ever.
#include <gtest/gtest.h>

#include "diloco/files/error.h"
#include "diloco/worker/coordinator_link.h"
#include "diloco/worker/stream/frame.h"
#include "diloco/worker/worker.pb.h"
#include "diloco/worker/worker_dial.h"
#include "tests/diloco/worker/worker_server_fixture.h"

namespace causeway::diloco {
namespace {

class MisplacedWorker : public WorkerServerTest {
  bool over_tls() const override { return false; }
};

// It waited for ever before.
TEST_F(MisplacedWorker, RefusesAWorkerOfAnotherVersionAndSaysWhoIsOlder) {
  start(1);
  for (const std::uint32_t protocol : {kWorkerProtocol - 1, kWorkerProtocol + 1}) {
    std::string problem;
    CoordinatorLink link(*dial_coordinator(
        request(0, 1), [] {}, problem));
    worker_wire::WorkerMessage message;
    message.mutable_attach()->set_protocol(protocol);
    link.send(message);
    try {
      link.wait(keep);
      FAIL() << "it was taken";
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), Errc::config_mismatch);
      const std::string than = protocol < kWorkerProtocol ? "older" : "newer";
      EXPECT_NE(std::string(error.what()).find("this worker is " + than + " than its coordinator"),
                std::string::npos);
    }
  }
}

TEST_F(MisplacedWorker, WhoWaitsInAWrongDirectoryIsTold) {
  start(1);
  AttachRequest lost = request(0, 1);
  lost.socket = directory_.path() / "nowhere" / "worker.sock";
  std::string told;
  const auto give_up = [&told](const std::string& what) {
    told = what;
    return false;
  };
  EXPECT_THROW(WorkerSession::attach(lost, give_up), std::system_error);
  EXPECT_NE(told.find("nowhere/worker.sock: there is no such directory"), std::string::npos);
}

}  // namespace
}  // namespace causeway::diloco
