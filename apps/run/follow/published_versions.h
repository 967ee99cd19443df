// What servers load: a directory with the newest model, `current`, which changes from one version
// to the next in one step.
//
//   versions/ROUND-DIGEST/  model.safetensors, config.json and what else belongs to a model, and
//                           version.json, which says what it is; synced before anything points to
//                           it
//   current                 a symbolic link to the newest of them
//   current.json            one to current/version.json
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>

#include <nlohmann/json.hpp>

#include "diloco/maths/digest.h"
#include "diloco/maths/train.h"

namespace causeway::run {

class PublishedVersions {
 public:
  // `kept`: how many stay, the newest included, for who still reads an older one. Removes what a
  // process that was killed left half-written.
  PublishedVersions(std::filesystem::path directory, std::size_t kept);

  // version.json of `current`; null if there is none.
  nlohmann::ordered_json current() const;

  // `write` writes the model's files into the directory that it is given. `facts` goes into
  // version.json, with the SHA-256 of model.safetensors. Returns that. Throws std::system_error
  // naming the file; then `current` is what it was, and nothing is left behind.
  using Write = std::function<void(const std::filesystem::path& directory)>;
  nlohmann::ordered_json publish(diloco::Round version, const diloco::Digest& digest,
                                 const Write& write, nlohmann::ordered_json facts);

  // Other facts of the version that is there.
  void amend(const nlohmann::ordered_json& facts);

 private:
  void point_at(const std::string& name);
  void remove_old(const std::string& newest);

  std::filesystem::path directory_, versions_;
  std::size_t kept_;
};

}  // namespace causeway::run
