// The keys of the data.
#include <algorithm>

#include "apps/run/config/config_schema.h"
#include "apps/run/config/key_builders.h"

namespace causeway::run {

using C = Keys<Config>;

namespace {

template <typename Owner, typename Access>
Key<Owner> paths_key(std::string name, Access access, bool may_be_empty, std::string meaning) {
  auto key = Keys<Owner>::make(std::move(name), "list of texts", std::move(meaning));
  key.allowed = may_be_empty ? "paths or globs, or an empty list" : "one or more paths or globs";
  key.get = [access](const Owner& owner) -> Value { return access(owner); };
  key.set = [access, may_be_empty](Owner& owner, const Value& value) {
    std::vector<std::string> files = texts_of(value, "paths or globs, in quotes");
    const auto empty = [](const std::string& file) { return file.empty(); };
    if ((files.empty() && !may_be_empty) || std::ranges::any_of(files, empty)) {
      throw std::invalid_argument("must be a list of one or more paths or globs, in quotes");
    }
    access(owner) = std::move(files);
  };
  return key;
}

}  // namespace

void add_data_keys(std::vector<Key<Config>>& keys) {
  using Format = intra::DataOptions::Format;
  keys.push_back(of_process(
      defaults_to("none", paths_key<Config>(
                              "data.files", [](auto& c) -> auto& { return c.data.files; }, false,
                              "Paths or globs; every match is read, in sorted order, a file with "
                              "several names once. Relative to the current directory. Left out: a "
                              "program of your own trains (docs/worker-api.md)."))));
  keys.push_back(of_any_trainer(of_run(C::choice<bool>(
      "data.mode", [](auto& c) -> auto& { return c.data.per_region; },
      {{"shared", false}, {"per-region", true}},
      "shared: all regions have the same data and share out each pass over it; a region with other "
      "data is refused. per-region: each region has data of its own and reads all of it; then only "
      "the loss on data.validation_files compares regions."))));
  keys.push_back(of_process(paths_key<Config>(
      "data.validation_files", [](auto& c) -> auto& { return c.data.validation_files; }, true,
      "Paths or globs of a set that all regions have: each measures the final model on it too "
      "(common_val_loss in result.json), beside the last part of its own data. If data.files "
      "matches them too, they are left out of it. Empty: none.")));
  keys.push_back(of_process(C::number_as(
      "data.digest_gib", "GiB",
      [](const Config& c) { return static_cast<double>(c.data.digest_at_once_bytes) / kGibi; },
      [](Config& c, double gib) {
        c.data.digest_at_once_bytes = static_cast<std::uint64_t>(gib * kGibi);
      },
      {0, 1e6},
      "Up to this much data is read for its digest before a worker attaches, unless its digest is "
      "known. More is read while training goes on; until all is read, only a sample of it is "
      "compared with the other regions.")));
  keys.push_back(of_run(C::choice<Format>(
      "data.format", [](auto& c) -> auto& { return c.data.format; },
      {{"text", Format::text},
       {"uint16", Format::uint16},
       {"uint32", Format::uint32},
       {"llmc", Format::llmc}},
      "text: bytes are tokens. uint16, uint32: little-endian tokens. llmc: the .bin shards of "
      "llm.c.")));
  keys.push_back(of_process(
      defaults_to("model.from's",
                  C::directory(
                      "data.tokenizer", [](auto& c) -> auto& { return c.origin.tokenizer; },
                      "The directory of the tokenizer.json that the tokens were made with; it is "
                      "copied beside the model (docs/tokenizer.md)."))));
  keys.push_back(of_run(C::number(
      "data.validation_fraction", [](auto& c) -> auto& { return c.data.validation_fraction; },
      {0, 1, true, true}, "Last part of the tokens, kept for validation and never trained on.")));
}

Key<RegionConfig> region_data_key() {
  return of_built_in_trainer(defaults_to(
      "data.files", paths_key<RegionConfig>(
                        "regions.data_files", [](auto& r) -> auto& { return r.data_files; }, true,
                        "This region's own value of data.files, for data.mode per-region or where "
                        "the files lie elsewhere. Empty: data.files.")));
}

}  // namespace causeway::run
