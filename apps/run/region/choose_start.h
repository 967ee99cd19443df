// How a region starts when nobody says: it goes on, joins the run, or founds it.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "apps/run/config/config.h"
#include "diloco/coordinator/coordinator.h"
#include "inter/mesh/mesh.h"
#include "inter/tls/pki.h"

namespace causeway::run {

// A directory that holds a run goes on with it. The founder founds only a run that none of
// `others`, by name where they listen, is in already: it may have lost its disk. Asks each of them
// for at most three seconds.
diloco::Start choose_start(const Config& config, const std::string& region,
                           const std::filesystem::path& directory,
                           const std::map<std::string, inter::Endpoint>& others,
                           const inter::Credentials& credentials);

}  // namespace causeway::run
