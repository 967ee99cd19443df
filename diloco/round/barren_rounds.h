// The newest rounds of a run that list nothing, because no region had anything finite to offer. One
// may be chance; several are a training that diverges everywhere and will not come back by itself.
// Pure.
#pragma once

#include <optional>

#include "diloco/log/record.h"

namespace causeway::diloco {

class BarrenRounds {
 public:
  // `goodbye`: how long the other regions take to hear that the run is over.
  explicit BarrenRounds(Time goodbye) : goodbye_(goodbye) {}

  // This region starts, and so many are known. Who restarts while training diverges counts the
  // rounds as the others do. True: the run has ended by them. Then all regions were started again,
  // with other settings perhaps, and these deserve as many rounds.
  bool start(Round count);
  // A record was added or replaced; so many there are now.
  void add_record(Round count, Time now);

  // After such a start: those that ended do not come back by themselves; those that an operator
  // starts again may come later than this region. False: they were met, or the run went on.
  bool awaits_others() const { return before_ >= kMax && count_ == before_ && !met_others_; }
  // `there`: with those that are here the run may go on. `patience`: with those that are not.
  void look_for_others(bool there, Time patience, Time now);

  Round count() const { return count_; }
  bool too_many() const { return count_ >= kMax; }
  // When the run ends, if there were too many.
  std::optional<Time> ends_at() const { return ends_at_; }

 private:
  static constexpr Round kMax = 3;

  Time goodbye_;
  Round count_ = 0;
  Round before_ = 0;            // of these, before this start: if they had ended the run
  std::optional<Time> met_at_;  // after such a start: most regions are there since
  bool met_others_ = false;     // for long enough: they take part
  std::optional<Time> ends_at_;
};

}  // namespace causeway::diloco
