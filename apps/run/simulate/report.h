// The closing table on the terminal, and report.html.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/run/region/region_files.h"
#include "apps/run/simulate/display.h"
#include "apps/run/simulate/summary.h"

namespace causeway::run {

// `sample` is text from the trained model, empty if none was made; `out` is where the files are.
std::string report_text(const Summary& summary, const std::string& sample,
                        const std::filesystem::path& out);

// One file without references to anything outside it.
std::string report_html(const Summary& summary, const std::vector<Sample>& samples,
                        const std::string& sample);

// The same while the run goes on: the page loads itself anew every few seconds.
std::string report_html_so_far(const View& view, const std::vector<Sample>& samples);

}  // namespace causeway::run
