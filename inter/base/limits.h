// What bounds the memory of a mesh. Internal to inter.
#pragma once

#include <cstddef>
#include <cstdint>

namespace causeway::inter {

// Strangers may hold this many sockets; which gives way, strangers.h says, so that they cannot keep
// a region out. Peers that dial all their data connections at once are strangers too for a moment.
constexpr std::size_t kUnauthenticatedMax = 256;
constexpr std::size_t kUnauthenticatedFromOneMax = 64;  // address that no member came from

constexpr std::size_t kDataConnectionsMax = 64;  // of a session

// Idle deadlines for which a control connection may be silent while bytes move on the session's
// data connections, and a data connection while heartbeats are answered late. Behind bulk on a slow
// path packets are lost again and again, and TCP waits twice as long after each loss: 1, 3, 7, 15
// s. So the first deadline says nothing, and three leave room for one more try. Not for ever: the
// kernel of a process that hangs confirms bytes, too.
constexpr int kControlDeadlines = 3;

// A data connection that moved fewer bytes has carried no bulk: they are those of its handshake.
constexpr std::uint64_t kMovedBytesMin = 32U << 10;

// A chunk of a data connection whose bytes TCP delivered is confirmed before this many more are, or
// some box on the way keeps them.
constexpr std::uint64_t kUnansweredBytesMax = 1U << 20;

// A peer may name as many blobs as it likes; what is remembered of them is bounded.
constexpr std::size_t kRememberedBlobsMax = 4096;

constexpr std::size_t kQueuedMessagesMax = 16;          // of the largest size, to one peer
constexpr std::size_t kQueuedFramesBytes = 1U << 20;    // of everything else on control
constexpr std::size_t kRelayBacklogBytes = 256U << 10;  // of control: what is relayed waits longer
constexpr std::size_t kRelayedWaitingMax = 4U << 20;    // from a third region, not read yet
constexpr unsigned kUnsentBytesAtFirst = 512U << 10;    // in a data socket
constexpr unsigned kUnsentBytesMin = 128U << 10, kUnsentBytesMax = 4U << 20;
constexpr unsigned kUnsentBytesCrowded = 16U << 10;  // where one sends, slowly

constexpr std::size_t kOpenPartialsMax = 16;  // blobs on their way whose files stay open

constexpr std::size_t kReadAheadBytes = 64U << 10;  // of a connection, in OpenSSL
constexpr std::size_t kTlsBytes = 128U << 10;       // of a connection, all that OpenSSL holds
constexpr std::size_t kGatheredBytes = 256U << 10;  // of a data connection, records to be sent
constexpr std::size_t kHashReadBytes = 256U << 10;  // of the hashing thread: stays in a cache

}  // namespace causeway::inter
