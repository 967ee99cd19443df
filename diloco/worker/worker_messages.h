// Between the messages of the worker socket (worker.proto) and what they mean.
#pragma once

#include <string>

#include "diloco/files/error.h"
#include "diloco/worker/worker.pb.h"
#include "diloco/worker/worker_session.h"

namespace causeway::diloco {

// Throws Errc::malformed.
AttachRequest to_request(const worker_wire::Attach& message);
DataDigests to_digests(const worker_wire::DataRead& message);

void put(const DataDigests& data, const std::optional<DataDigest>& trained_on,
         worker_wire::Attach* out);
void put(const DataDigests& data, worker_wire::DataRead* out);

worker_wire::CoordinatorMessage to_message(const Train& order);
worker_wire::CoordinatorMessage to_message(const Continue& order);
// Throw Errc::malformed.
Train to_order(const worker_wire::Train& message);
Continue to_order(const worker_wire::Continue& message);
// Of a worker whose settings, or whose place in the region, are not its coordinator's.
// `kind`: Errc::config_mismatch, lineage or left_out.
worker_wire::CoordinatorMessage refusal(const std::string& reason,
                                        Errc kind = Errc::config_mismatch);
// Which of these a refusal is, or Errc::malformed.
Errc kind_of(const worker_wire::Refused& refused);
// Of a worker that speaks this number and not kWorkerProtocol.
worker_wire::CoordinatorMessage refusal_of_protocol(std::uint32_t protocol);
worker_wire::CoordinatorMessage waiting(const std::string& what);

}  // namespace causeway::diloco
