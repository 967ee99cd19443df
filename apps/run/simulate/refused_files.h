// The files that a simulation keeps of its run, beside what the regions write themselves. A disk
// that takes none of them (full, over quota, read-only, failing) must not end the training: each is
// tried again whenever it is due.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <system_error>

namespace causeway::run {

class RefusedFiles {
 public:
  // `note` is told when the trouble begins and when it is over: once each, however many files are
  // concerned and however often they are tried.
  explicit RefusedFiles(std::function<void(const std::string&)> note) : note_(std::move(note)) {}

  // Whether `write` returned. False if it threw a std::system_error; all others are thrown.
  bool attempt(const std::string& file, const std::function<void()>& write);

  // Whose newest attempt failed, and why.
  const std::map<std::string, std::system_error>& list() const { return refused_; }

 private:
  std::function<void(const std::string&)> note_;
  std::map<std::string, std::system_error> refused_;
};

}  // namespace causeway::run
