#include "tests/gpu_double/host_kernels/fibres.h"

#include <csetjmp>

#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "tests/gpu_double/cudart.h"

namespace causeway::gpu_double {
namespace {

constexpr std::size_t kStackBytes = 128 << 10;
constexpr unsigned kWarp = 32;

// Of the threads of a block, or of a warp.
struct Meeting {
  unsigned first = 0, members = 0, left = 0, arrived = 0;
  std::uint64_t held = 0;  // meetings that have been
  const char* what = "";
  std::vector<std::uint64_t> values[2];  // of this meeting, and of the one before
};

struct Fibre {
  ucontext_t
      context{};  // to begin with; after that jumps are enough, which ask nothing of the kernel
  jmp_buf place{};
  std::unique_ptr<char[]> stack;
  bool begun = false, done = false;
  const Meeting* waits = nullptr;
  std::uint64_t until = 0;  // meetings held

  bool can_go_on() const { return !done && (waits == nullptr || waits->held >= until); }
};

class Block {
 public:
  explicit Block(unsigned threads) : fibres_(threads), block_(of(0, threads)) {
    for (unsigned first = 0; first < threads; first += kWarp)
      warps_.push_back(of(first, std::min(kWarp, threads - first)));
    for (Fibre& fibre : fibres_) fibre.stack = std::make_unique_for_overwrite<char[]>(kStackBytes);
  }

  void run(unsigned number, bool backwards, const std::function<void()>& body) {
    number_ = number;
    backwards_ = backwards;
    body_ = &body;
    block_ = of(0, static_cast<unsigned>(fibres_.size()));
    for (Meeting& warp : warps_) warp = of(warp.first, warp.members);
    for (unsigned i = 0; i < fibres_.size(); ++i) begin(i);
    from_ = 0;
    while (choose()) resume(fibres_[thread_]);
    for (const Fibre& fibre : fibres_)
      if (!fibre.done) refuse("threads of a block wait for each other for ever");
  }

  const std::uint64_t* meet(Meeting& meeting, const char* what, std::uint64_t mine) {
    if (meeting.left > 0) refuse("a thread waits for others, of which one has left the kernel");
    if (meeting.arrived > 0 && std::strcmp(meeting.what, what) != 0)
      refuse("threads wait for different things at one time");
    meeting.what = what;
    const std::uint64_t now = meeting.held;
    std::uint64_t* const values = meeting.values[now % 2].data();
    values[thread_ - meeting.first] = mine;
    if (++meeting.arrived == meeting.members) {
      meeting.arrived = 0;
      ++meeting.held;
      from_ = 0;
    } else {
      wait(meeting, now + 1);
    }
    return values;
  }
  Meeting& block() { return block_; }
  Meeting& warp() { return warps_[thread_ / kWarp]; }
  unsigned thread() const { return thread_; }
  unsigned number() const { return number_; }
  unsigned threads() const { return static_cast<unsigned>(fibres_.size()); }

 private:
  static Meeting of(unsigned first, unsigned members) {
    Meeting meeting;
    meeting.first = first;
    meeting.members = members;
    for (auto& values : meeting.values) values.resize(members);
    return meeting;
  }

  void begin(unsigned index) {
    Fibre& fibre = fibres_[index];
    fibre.begun = fibre.done = false;
    fibre.waits = nullptr;
    getcontext(&fibre.context);
    fibre.context.uc_stack.ss_sp = fibre.stack.get();
    fibre.context.uc_stack.ss_size = kStackBytes;
    makecontext(&fibre.context, &Block::enter, 0);
  }
  static void enter();

  void leave() {
    fibres_[thread_].done = true;
    for (Meeting* meeting : {&block_, &warp()}) {
      ++meeting->left;
      if (meeting->arrived > 0) refuse("a thread left the kernel while others wait for it");
    }
  }

  void resume(Fibre& fibre) {
    if (_setjmp(scheduler_) != 0) return;
    if (fibre.begun) _longjmp(fibre.place, 1);
    fibre.begun = true;
    setcontext(&fibre.context);
  }
  void wait(const Meeting& meeting, std::uint64_t until) {
    fibres_[thread_].waits = &meeting;
    fibres_[thread_].until = until;
    if (_setjmp(fibres_[thread_].place) == 0) _longjmp(scheduler_, 1);
    fibres_[thread_].waits = nullptr;
  }

  // The next thread; false: none can go on.
  bool choose() {
    for (; from_ < fibres_.size(); ++from_) {
      thread_ = backwards_ ? threads() - 1 - from_ : from_;
      if (fibres_[thread_].can_go_on()) return true;
    }
    return false;
  }

  std::vector<Fibre> fibres_;
  Meeting block_;
  std::vector<Meeting> warps_;
  jmp_buf scheduler_{};
  unsigned number_ = 0, thread_ = 0;
  unsigned from_ = 0;  // in the order of this grid: none before it can go on
  bool backwards_ = false;
  const std::function<void()>* body_ = nullptr;
};

thread_local Block* running = nullptr;

void Block::enter() {
  (*running->body_)();
  running->leave();
  _longjmp(running->scheduler_, 1);
}

}  // namespace

unsigned thread_of_block() {
  return running->thread();
}
unsigned block_of_grid() {
  return running->number();
}
unsigned threads_of_block() {
  return running->threads();
}

void run_grid(unsigned blocks, unsigned threads, const std::function<void()>& body) {
  thread_local std::map<unsigned, Block> blocks_of;  // stacks are kept from grid to grid
  thread_local bool backwards = false;
  backwards = !backwards;
  running = &blocks_of.try_emplace(threads, threads).first->second;
  for (unsigned number = 0; number < blocks; ++number) running->run(number, backwards, body);
  running = nullptr;
}

const std::uint64_t* meet_block(const char* what, std::uint64_t mine) {
  return running->meet(running->block(), what, mine);
}
const std::uint64_t* meet_warp(const char* what, std::uint64_t mine) {
  return running->meet(running->warp(), what, mine);
}

}  // namespace causeway::gpu_double
