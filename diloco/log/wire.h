// Between the plain values of record.h and messages.h and their Protocol Buffers messages. Included
// by .cc files only.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>

#include "diloco/log/messages.h"
#include "diloco/log/protocol.pb.h"
#include "diloco/log/record.h"

namespace causeway::diloco {

[[noreturn]] void throw_malformed(const std::string& what);
// `what` is not a number, or one below 0.
void check_finite(std::initializer_list<double> values, const std::string& what);
void check_measured(std::initializer_list<double> values, const std::string& what);

void encode(const Digest& digest, std::string* out);
void encode(const inter::BlobId& blob, wire::BlobId* out);
void encode(const Contribution& contribution, wire::Contribution* out);
void encode(const KDecision& decision, wire::KDecision* out);
void encode(const CommitRecord& record, wire::CommitRecord* out);
void encode(const Snapshot& snapshot, wire::Snapshot* out);
void encode(const Member& member, wire::Member* out);
void encode(const LogEntry& entry, wire::LogEntry* out);
void encode(const RaftMessage& message, wire::RaftMessage* out);
void encode(const NamedTensors& tensors, wire::Tensors* out);

// All throw std::system_error (Errc::malformed) with what is wrong.
Digest decode_digest(const std::string& bytes);
inter::BlobId decode(const wire::BlobId& message);
Contribution decode(const wire::Contribution& message);
KDecision decode(const wire::KDecision& message);
CommitRecord decode(const wire::CommitRecord& message);
Snapshot decode(const wire::Snapshot& message);
Member decode(const wire::Member& message);
LogEntry decode(const wire::LogEntry& message);
RaftMessage decode(const wire::RaftMessage& message);
NamedTensors decode(const wire::Tensors& message);
// It is no longer than the name of a region's disk can be.
bool may_be_incarnation(const std::string& text);

std::size_t encoded_bytes(const LogEntry& entry);

}  // namespace causeway::diloco
