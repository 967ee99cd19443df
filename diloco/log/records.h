// What a coordinator remembers of the rounds that were committed: of the newest in memory, of the
// earlier ones through the log on disk.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <vector>

#include "diloco/log/raft_log.h"
#include "diloco/log/record.h"

namespace causeway::diloco {

// The records, by round.
class Records {
 public:
  explicit Records(const RaftLog& log) : log_(log) {}

  Round size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // Both valid until the log changes or another record is asked for.
  const CommitRecord& operator[](Round round) const;
  const CommitRecord& at_index(Index index) const;
  const CommitRecord& back() const { return (*this)[size_ - 1]; }

  // The record of the next round is entry `index`.
  void add(Index index);
  void rewind(Round round);  // without the records of this round and later ones
  Index index_of(Round round) const;

 private:
  // Most entries are records, so a run of rounds that follow each other in the log is a place.
  struct Stretch {
    Round round = 0;
    Index index = 0;
  };

  const RaftLog& log_;
  std::vector<Stretch> stretches_;  // ascending
  Round size_ = 0;
};

// A sequence of which only the newest elements are kept.
template <typename T>
class Tail {
 public:
  std::size_t size() const { return forgotten_ + kept_.size(); }
  bool empty() const { return size() == 0; }
  std::size_t first() const { return forgotten_; }  // that is kept
  const T& operator[](std::size_t i) const { return kept_.at(i - forgotten_); }
  const T& back() const { return kept_.back(); }
  void push(T element) { kept_.push_back(std::move(element)); }
  void forget_before(std::size_t i) {
    for (; forgotten_ < i; ++forgotten_) kept_.pop_front();
  }

 private:
  std::deque<T> kept_;
  std::size_t forgotten_ = 0;
};

// How a record takes contributions out of a round again, when no living member can supply their
// payloads: it takes the place of the round's record, and the records of later rounds, which were
// made from a state that nobody can reach any more, are void. Every region reads the log in this
// way, so all have the same records (docs/rounds.md, "What nobody has"). Pure.
// What the next record of the log does where `version` records stand, and `revision` of those
// before them took something out.
enum class Effect { none, next, replaces };
Effect effect_of(const CommitRecord& record, Round version, std::uint32_t revision);

// `record` without `lost`. The weights that are left grow by one factor, so that their sum stays.
CommitRecord withdraw(const CommitRecord& record, const std::set<ContributionKey>& lost,
                      std::uint32_t revision);

}  // namespace causeway::diloco
