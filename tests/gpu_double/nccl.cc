// A double of the NCCL calls that Causeway makes, as a shared library of its name: ranks are
// processes or threads of one host that meet in shared memory. Groups form, and operations end,
// while somebody asks; a rank that died is an error of the others, one that hangs is none.
//
// Sends and receives of one group of calls are one operation, which every rank must take part in.
//
// What is asked for is in progress at first, and not in the stream before the second time that
// somebody asks how it goes. Who uses a group before it formed, forgets to end a group of calls, or
// destroys what was not finalised ends the program with a message.
#include <fcntl.h>
#include <nccl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu_double/cudart.h"

namespace {

constexpr int kRanksMax = 8;
constexpr std::size_t kSlotFloats = std::size_t{16}
                                    << 20;  // not touched, so not there, beyond what is used

// What a rank sends to another in one operation, in its slot.
struct Sent {
  std::size_t begin, count;
};

// Of one rank. Sums are read from the slot of the operation's number, odd or even, so that a rank
// may be one ahead.
struct Place {
  std::atomic<pid_t> process;
  std::atomic<std::uint64_t> offered, taken;  // operations
  Sent sent[2][kRanksMax];
  float slots[2][kSlotFloats];
};
struct Meeting {
  std::atomic<bool> aborted;
  Place places[kRanksMax];
};

}  // namespace

struct ncclComm {
  Meeting* meeting = nullptr;
  std::string name;  // of the shared memory
  int rank = 0, ranks = 0;
  std::uint64_t operations = 0;
  bool told_formed = false;  // and whoever uses it knows
  bool finalised = false;
  bool failed = false;
  std::vector<std::function<bool()>> in_progress = {};  // each puts an operation into its stream
  int asked = 0;                                        // how it goes, since the last of these

  void begin(std::function<bool()> operation) {
    in_progress.push_back(std::move(operation));
    asked = 0;
  }
  bool is_in_progress() {
    if (in_progress.empty() || ++asked < 2) return !in_progress.empty();
    for (const auto& operation : std::exchange(in_progress, {})) failed = !operation() || failed;
    return false;
  }

  template <typename Member>
  bool all(Member member, std::uint64_t least) const {
    for (int i = 0; i < ranks; ++i) {
      if ((meeting->places[i].*member).load() < least) return false;
    }
    return true;
  }
  bool is_formed() const {
    for (int i = 0; i < ranks; ++i) {
      if (meeting->places[i].process.load() == 0) return false;
    }
    return true;
  }
  // An operation cannot end any more.
  bool is_broken() const {
    if (failed || meeting->aborted.load()) return true;
    for (int i = 0; i < ranks; ++i) {
      const pid_t process = meeting->places[i].process.load();
      if (process != 0 && kill(process, 0) != 0) return true;
    }
    return false;
  }
};

namespace {

using Finish = std::function<void(const ncclComm&, std::uint64_t number)>;

std::atomic<int> groups = 0;  // that nobody left

// Of this thread: calls that are made at once, when the outermost group of calls ends.
thread_local int depth = 0;
thread_local std::vector<std::pair<ncclComm_t, std::function<bool()>>> together;

// A send, or a receive; of a group of calls.
struct Message {
  int peer = 0;
  const float* from = nullptr;
  float* to = nullptr;  // null: a send
  std::size_t count = 0;
};
struct Messages {
  ncclComm_t group = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Message> all;
};
thread_local Messages messages;

void require_no_open_calls() {
  if (depth > 0) causeway::gpu_double::refuse("a group of NCCL's calls was begun and not ended");
}

const float* slot(const ncclComm& group, int rank, std::uint64_t number) {
  return group.meeting->places[rank].slots[number % 2];
}

void require_usable(const ncclComm& group, const void* values, std::size_t count) {
  if (!group.told_formed || group.finalised)
    causeway::gpu_double::refuse("an operation of a group that has not formed, or is over");
  if (count > kSlotFloats)
    causeway::gpu_double::refuse("more numbers than NCCL's double has room for");
  if (causeway::gpu_double::where(values, count * sizeof(float)) !=
      causeway::gpu_double::Where::device)
    causeway::gpu_double::refuse("a sum of what is no device memory");
}

using Offer = std::function<void(Place& own, std::uint64_t number)>;

// Makes an offer to the others, and lets `finish` read theirs when all have offered.
ncclResult_t meet(ncclComm_t group, cudaStream_t stream, Offer offer, Finish finish) {
  const std::uint64_t number = ++group->operations;
  const auto offered = std::make_shared<bool>(false);
  const auto work = [=, offer = std::move(offer), finish = std::move(finish)] {
    Place& own = group->meeting->places[group->rank];
    if (!*offered) {
      if (!group->is_broken() && number > 2 && !group->all(&Place::taken, number - 2)) return false;
      offer(own, number);
      own.offered.store(number);
      *offered = true;
    }
    if (group->all(&Place::offered, number)) {
      finish(*group, number);
    } else if (!group->is_broken()) {
      return false;
    }
    own.taken.store(number);
    return true;
  };
  auto operation = [=] { return causeway::gpu_double::enqueue_until_done(stream, work); };
  if (depth > 0) {
    together.emplace_back(group, std::move(operation));
    return ncclSuccess;
  }
  group->begin(std::move(operation));
  return ncclInProgress;
}

// Offers `count` numbers.
ncclResult_t meet(ncclComm_t group, const void* values, std::size_t count, cudaStream_t stream,
                  Finish finish) {
  require_usable(*group, values, count);
  const auto offer = [=](Place& own, std::uint64_t number) {
    std::memcpy(own.slots[number % 2], values, count * sizeof(float));
  };
  return meet(group, stream, offer, std::move(finish));
}

ncclResult_t add_message(ncclComm_t group, cudaStream_t stream, const Message& message) {
  require_usable(*group, message.to == nullptr ? message.from : message.to, message.count);
  if (message.peer < 0 || message.peer >= group->ranks) return ncclInvalidArgument;
  if (depth == 0) causeway::gpu_double::refuse("a message outside a group of calls may hang");
  if (messages.group != nullptr && (messages.group != group || messages.stream != stream))
    causeway::gpu_double::refuse("messages of two groups, or streams, at once");
  messages.group = group;
  messages.stream = stream;
  messages.all.push_back(message);
  return ncclSuccess;
}

// One to each rank, and one from each.
ncclResult_t meet_for_messages() {
  const Messages now = std::exchange(messages, {});
  const auto offer = [=](Place& own, std::uint64_t number) {
    Sent* const sent = own.sent[number % 2];
    std::fill(sent, sent + kRanksMax, Sent{});
    std::size_t place = 0;
    for (const Message& message : now.all) {
      if (message.to != nullptr) continue;
      if (sent[message.peer].count > 0)
        causeway::gpu_double::refuse("two messages to one rank at once");
      if (place + message.count > kSlotFloats)
        causeway::gpu_double::refuse("more numbers than NCCL's double has room for");
      std::memcpy(own.slots[number % 2] + place, message.from, message.count * sizeof(float));
      sent[message.peer] = {place, message.count};
      place += message.count;
    }
  };
  const auto finish = [=](const ncclComm& all, std::uint64_t number) {
    for (const Message& message : now.all) {
      if (message.to == nullptr) continue;
      const Sent& sent = all.meeting->places[message.peer].sent[number % 2][all.rank];
      if (sent.count != message.count)
        causeway::gpu_double::refuse("a message of another length than is waited for");
      std::memcpy(message.to, slot(all, message.peer, number) + sent.begin,
                  sent.count * sizeof(float));
    }
  };
  return meet(now.group, now.stream, offer, finish);
}

void add_up(const ncclComm& group, std::uint64_t number, void* into, std::size_t count) {
  auto* sums = static_cast<float*>(into);
  for (std::size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (int rank = 0; rank < group.ranks; ++rank) sum += slot(group, rank, number)[i];
    sums[i] = sum;
  }
}

void leave(ncclComm_t group) {
  munmap(group->meeting, sizeof(Meeting));
  shm_unlink(group->name.c_str());  // whoever is first
  delete group;
  --groups;
}

bool is_sum(ncclDataType_t type, ncclRedOp_t operation) {
  return type == ncclFloat && operation == ncclSum;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id, 0, sizeof *id);
  std::uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) return ncclSystemError;
  std::snprintf(id->internal, sizeof id->internal, "/causeway-nccl-%016lx", number);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (ranks > kRanksMax || rank < 0 || rank >= ranks || config->blocking != 0)
    return ncclInvalidArgument;
  const int memory = shm_open(id.internal, O_RDWR | O_CREAT, 0600);
  if (memory < 0 || ftruncate(memory, sizeof(Meeting)) != 0) return ncclSystemError;
  void* const mapped =
      mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  close(memory);
  if (mapped == MAP_FAILED) return ncclSystemError;
  auto* meeting = static_cast<Meeting*>(mapped);  // all zeros at first, which is how it begins
  *made = new ncclComm{.meeting = meeting, .name = id.internal, .rank = rank, .ranks = ranks};
  ++groups;
  meeting->places[rank].process.store(getpid());
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t group, ncclResult_t* state) {
  require_no_open_calls();
  const bool in_progress = !group->is_formed() || group->is_in_progress();
  group->failed = group->is_broken();
  if (group->is_formed())
    shm_unlink(group->name.c_str());  // nobody else comes; killed ranks leave nothing then
  *state = group->failed ? ncclRemoteError : in_progress ? ncclInProgress : ncclSuccess;
  group->told_formed = group->told_formed || *state == ncclSuccess;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "another rank ended" : "refused by the double";
}
const char* ncclGetLastError(ncclComm_t) {
  return "";
}

ncclResult_t ncclCommFinalize(ncclComm_t group) {
  require_no_open_calls();
  if (group->meeting->places[group->rank].taken.load() < group->operations)
    causeway::gpu_double::refuse("a group is left while its operations are under way");
  group->finalised = true;
  group->begin([] { return true; });
  return ncclInProgress;
}
ncclResult_t ncclCommDestroy(ncclComm_t group) {
  if (!group->finalised || !group->in_progress.empty())
    causeway::gpu_double::refuse("a group is destroyed that was not finalised");
  leave(group);
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t group) {
  group->meeting->aborted.store(true);
  group->failed = true;
  cudaDeviceSynchronize();  // what is under way ends, as it is broken
  leave(group);
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (depth == 0) return ncclInvalidUsage;
  if (depth == 1 && messages.group != nullptr) meet_for_messages();
  if (--depth > 0) return ncclSuccess;
  const auto calls = std::exchange(together, {});
  for (const auto& [group, operation] : calls) group->begin(operation);
  return calls.empty() ? ncclSuccess : ncclInProgress;
}

// Not NCCL's: groups of this process that nobody left.
int causewayNcclGroups() {
  return groups;
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t group, cudaStream_t stream) {
  if (!is_sum(type, operation)) return ncclInvalidArgument;
  return meet(group, from, count, stream,
              [=](const ncclComm& all, std::uint64_t number) { add_up(all, number, to, count); });
}
ncclResult_t ncclReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                        ncclRedOp_t operation, int root, ncclComm_t group, cudaStream_t stream) {
  if (!is_sum(type, operation)) return ncclInvalidArgument;
  return meet(group, from, count, stream, [=](const ncclComm& all, std::uint64_t number) {
    if (all.rank == root) add_up(all, number, to, count);
  });
}
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t group, cudaStream_t stream) {
  if (type != ncclFloat) return ncclInvalidArgument;
  return add_message(group, stream,
                     {.peer = peer, .from = static_cast<const float*>(from), .count = count});
}
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t group,
                      cudaStream_t stream) {
  if (type != ncclFloat) return ncclInvalidArgument;
  return add_message(group, stream, {.peer = peer, .to = static_cast<float*>(to), .count = count});
}
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t group, cudaStream_t stream) {
  if (type != ncclFloat) return ncclInvalidArgument;
  return meet(group, from, count, stream, [=](const ncclComm& all, std::uint64_t number) {
    if (all.rank != root) std::memcpy(to, slot(all, root, number), count * sizeof(float));
  });
}
}
