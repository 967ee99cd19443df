// A double of the NCCL calls that Causeway makes, as a shared library of its name: ranks are
// processes or threads of one host that meet in shared memory. Groups form, and operations end,
// while somebody asks; a rank that died is an error of the others, one that hangs is none.
#include <fcntl.h>
#include <nccl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string>

#include "tests/gpu_double/cudart.h"

namespace {

constexpr int kRanksMax = 8;
constexpr std::size_t kSlotFloats = std::size_t{16}
                                    << 20;  // not touched, so not there, beyond what is used

// Of one rank. Sums are read from the slot of the operation's number, odd or even, so that a rank
// may be one ahead.
struct Place {
  std::atomic<pid_t> process;
  std::atomic<std::uint64_t> offered, taken;  // operations
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
  bool failed = false;

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

const float* slot(const ncclComm& group, int rank, std::uint64_t number) {
  return group.meeting->places[rank].slots[number % 2];
}

// Offers `count` numbers to the others, and lets `finish` read theirs when all have offered.
ncclResult_t meet(ncclComm_t group, const void* values, std::size_t count, cudaStream_t stream,
                  Finish finish) {
  if (count > kSlotFloats)
    causeway::gpu_double::refuse("more numbers than NCCL's double has room for");
  if (causeway::gpu_double::where(values, count * sizeof(float)) !=
      causeway::gpu_double::Where::device)
    causeway::gpu_double::refuse("a sum of what is no device memory");
  const std::uint64_t number = ++group->operations;
  const auto offered = std::make_shared<bool>(false);
  const auto work = [=, finish = std::move(finish)] {
    Place& own = group->meeting->places[group->rank];
    if (!*offered) {
      if (!group->is_broken() && number > 2 && !group->all(&Place::taken, number - 2)) return false;
      std::memcpy(own.slots[number % 2], values, count * sizeof(float));
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
  return causeway::gpu_double::enqueue_until_done(stream, work) ? ncclSuccess : ncclInvalidArgument;
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
  *made = new ncclComm{meeting, id.internal, rank, ranks};
  meeting->places[rank].process.store(getpid());
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t group, ncclResult_t* state) {
  group->failed = group->is_broken();
  if (group->is_formed())
    shm_unlink(group->name.c_str());  // nobody else comes; killed ranks leave nothing then
  *state = group->failed ? ncclRemoteError : group->is_formed() ? ncclSuccess : ncclInProgress;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "another rank ended" : "refused by the double";
}
const char* ncclGetLastError(ncclComm_t) {
  return "";
}

ncclResult_t ncclCommFinalize(ncclComm_t) {
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t group) {
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
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  return ncclSuccess;
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
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t group, cudaStream_t stream) {
  if (type != ncclFloat) return ncclInvalidArgument;
  return meet(group, from, count, stream, [=](const ncclComm& all, std::uint64_t number) {
    if (all.rank != root) std::memcpy(to, slot(all, root, number), count * sizeof(float));
  });
}
}
