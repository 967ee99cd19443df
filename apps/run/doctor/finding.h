// What `causeway doctor` has to say about one thing.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace causeway::run {

struct Finding {
  enum class Grade { ok, warn, fail };
  Grade grade = Grade::ok;
  std::string subject;      // "disk", "link to us"
  std::string text;         // what was seen, with figures
  std::string advice = {};  // what to do; none if all is well
};

using Findings = std::vector<Finding>;

inline Finding ok(std::string subject, std::string text) {
  return {Finding::Grade::ok, std::move(subject), std::move(text)};
}
inline Finding warn(std::string subject, std::string text, std::string advice) {
  return {Finding::Grade::warn, std::move(subject), std::move(text), std::move(advice)};
}
inline Finding fail(std::string subject, std::string text, std::string advice) {
  return {Finding::Grade::fail, std::move(subject), std::move(text), std::move(advice)};
}

}  // namespace causeway::run
