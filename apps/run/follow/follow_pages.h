// What a follower shows over HTTP: its figures, whether it gets on, and which version is published.
#pragma once

#include "apps/run/follow/follow_report.h"
#include "apps/run/watch/metrics_server.h"

namespace causeway::run {

// `report` outlives what asks for the pages.
MetricsPages follow_pages(const FollowReport& report);

}  // namespace causeway::run
