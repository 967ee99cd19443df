// Whom a region asks for what, and when.
#include "diloco/region/fetcher.h"

#include <gtest/gtest.h>

namespace causeway::diloco {
namespace {

using std::chrono::seconds;

const inter::BlobId kBlob{.hash = {}, .size_bytes = 10};
const std::set<std::string> kUp{"eu"};

// As the contributor says of a payload that it pushes.
std::map<inter::BlobId, Fetcher::Want> pushed() {
  return {{kBlob, {.source = "eu", .under_way = true}}};
}

TEST(Fetcher, WhatIsUnderWayIsAskedForOnlyIfItDoesNotCome) {
  Fetcher fetcher;
  fetcher.set_wanted(pushed(), seconds(0));
  EXPECT_TRUE(fetcher.due(kUp, seconds(4)).empty());
  EXPECT_EQ(fetcher.due(kUp, seconds(5)).size(), 1U);
}

TEST(Fetcher, WhatWasForgoneIsAskedForAtOnceThoughItIsSaidToBeUnderWay) {
  Fetcher fetcher;
  fetcher.set_wanted(pushed(), seconds(0));
  ASSERT_EQ(fetcher.set_wanted({}, seconds(1)).size(), 1U);
  fetcher.note_forgone(kBlob);
  fetcher.set_wanted(pushed(), seconds(2));
  EXPECT_EQ(fetcher.due(kUp, seconds(2)).size(), 1U);

  fetcher.set_wanted({}, seconds(3));
  fetcher.set_wanted(pushed(), seconds(4));
  EXPECT_TRUE(fetcher.due(kUp, seconds(4)).empty()) << "it was asked for since";
}

}  // namespace
}  // namespace causeway::diloco
