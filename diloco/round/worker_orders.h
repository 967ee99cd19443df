// What this region's worker is told to do next.
#pragma once

#include <cstdint>
#include <optional>

#include "diloco/region/region.h"
#include "diloco/round/beginning.h"
#include "diloco/round/catch_up.h"
#include "diloco/round/data_check.h"
#include "diloco/round/leader.h"

namespace causeway::diloco {

class WorkerOrders {
 public:
  // All must outlive this.
  WorkerOrders(Region& region, const Leader& leader, const CatchUp& catch_up,
               const Beginning& beginning, const DataCheck& data_check)
      : region_(region),
        leader_(leader),
        catch_up_(catch_up),
        beginning_(beginning),
        data_check_(data_check) {}

  // It is attached for good once the run is known, if it is of this run.
  void welcome();
  // If it asks what to do and something is to be done, or must be called back from what it does.
  void instruct(Time now);
  // What a worker that holds this version, and took so many steps since, can do while nothing can
  // be decided; none if the run has no steps for it.
  std::optional<OrderContinue> steps_from(Round version, std::uint32_t taken = 0) const;

 private:
  void call_back();
  void instruct_idle(Time now);
  void train(const DataShare& share);
  void go_on(Time now);
  bool knows_where_the_run_stands(Time now) const;
  void catch_up(Time now);
  bool can_catch_up() const;
  bool may_restore() const;
  void wait_for_payloads(Time now);
  void apply(const CommitRecord& record, Time now);
  void restore();

  Region& region_;
  const Leader& leader_;
  const CatchUp& catch_up_;
  const Beginning& beginning_;
  const DataCheck& data_check_;
};

}  // namespace causeway::diloco
