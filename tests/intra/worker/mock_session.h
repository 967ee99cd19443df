// A worker's session whose calls a test expects.
#pragma once

#include <gmock/gmock.h>

#include <cstdint>
#include <filesystem>

#include "diloco/worker/worker_session.h"

namespace causeway::intra {

struct MockSession : diloco::WorkerSession {
  MOCK_METHOD(const diloco::Attachment&, attachment, (), (const, override));
  MOCK_METHOD(diloco::Instruction, next, (const KeepWaiting&, std::uint32_t), (override));
  MOCK_METHOD(bool, called_back, (), (override));
  MOCK_METHOD(void, hand_over, (const diloco::Contribution&, const diloco::SealedBytes&),
              (override));
  MOCK_METHOD(bool, await_stored, (), (override));
  MOCK_METHOD(void, applied, (diloco::Round, const diloco::Digest&), (override));
  MOCK_METHOD(void, offer_snapshot,
              (diloco::Round, const diloco::Digest&, const std::filesystem::path&), (override));
  MOCK_METHOD(void, report, (const diloco::Progress&), (override));
  MOCK_METHOD(void, data_read, (const diloco::DataDigests&), (override));
  MOCK_METHOD(bool, lost, (), (override));
};

}  // namespace causeway::intra
