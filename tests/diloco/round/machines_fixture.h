// What acts on a region, one machine at a time: members a and b, no leader within reach.
#pragma once

#include <chrono>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "diloco/region/region.h"
#include "diloco/round/beginning.h"
#include "diloco/round/catch_up.h"
#include "diloco/round/data_check.h"
#include "diloco/round/exchange.h"
#include "diloco/round/leader.h"
#include "diloco/round/run_end.h"
#include "diloco/round/worker_orders.h"
#include "tests/diloco/round/region_a.h"

namespace causeway::diloco {

class MachinesTest : public ::testing::Test {
 protected:
  MachinesTest() {
    region_.agreement.start(Time{0});
    region_.peers.set_up("b", "b's disk");
  }

  template <typename Kind>
  std::vector<Kind> taken() {
    std::vector<Kind> of_kind;
    for (const Action& action : region_.out.take()) {
      if (const auto* one = std::get_if<Kind>(&action)) of_kind.push_back(*one);
    }
    return of_kind;
  }

  Region region_{options_of_a(), state_of_a({"a", "b"})};
  Beginning beginning_{region_};
  Leader leader_{region_, beginning_};
  CatchUp catch_up_{region_};
  Exchange exchange_{region_, leader_, catch_up_};
  DataCheck data_check_{region_};
  WorkerOrders orders_{region_, leader_, catch_up_, beginning_, data_check_};
  RunEnd end_{region_, leader_, catch_up_};
  const Time cut_off_ = std::chrono::seconds{20};
};

}  // namespace causeway::diloco
