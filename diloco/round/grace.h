// How long a round waits for the last regions: mean lateness + 4 deviations of past rounds, as TCP
// does for its retransmission timer (RFC 6298), between two limits.
#pragma once

#include "diloco/log/record.h"

namespace causeway::diloco {

class Grace {
 public:
  Grace(Time min, Time max);
  Time length() const;
  void add(Time lateness);
  void start_from(Time length);  // what another one came to

 private:
  Time min_, max_;
  bool measured_ = false;
  double mean_us_ = 0, deviation_us_ = 0;
};

}  // namespace causeway::diloco
