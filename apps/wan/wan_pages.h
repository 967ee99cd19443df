// Files that the program carries: wan_page.html, and docs/wan-sim.openapi.json. Made by CMake.
#pragma once

namespace causeway::apps {

extern const char* const kWanPage;
extern const char* const kWanOpenApi;

}  // namespace causeway::apps
