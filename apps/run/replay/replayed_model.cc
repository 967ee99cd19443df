#include "apps/run/replay/replayed_model.h"

#include <map>
#include <vector>

#include "apps/run/page/format.h"
#include "intra/base/safetensors.h"
#include "intra/collective/collective.h"
#include "intra/published/checkpoint.h"
#include "intra/step/evaluation.h"

namespace causeway::run {
namespace {

bool is_ours(const Config& config, const diloco::Layout& layout) {
  return intra::fingerprint(diloco::Layout(intra::parameter_tensors(config.model))) ==
         intra::fingerprint(layout);
}

}  // namespace

void write_replayed_model(const std::filesystem::path& directory, const Config& config,
                          const diloco::Layout& layout, const intra::OuterState& state,
                          intra::StoredAs stored) {
  const std::map<std::string, std::string> metadata{{"run", state.run_id},
                                                    {"round", std::to_string(state.version)}};
  if (is_ours(config, layout))
    return intra::save_model(directory, config.model, layout, state.anchor, metadata, config.origin,
                             stored);
  std::vector<intra::TensorView> tensors;
  for (const diloco::PlacedTensor& tensor : layout.tensors()) {
    tensors.push_back({tensor.spec.name, tensor.spec.shape,
                       std::span(state.anchor).subspan(tensor.offset, tensor.spec.count())});
  }
  std::filesystem::create_directories(directory);
  intra::write_safetensors(directory / "model.safetensors", tensors, metadata, {}, stored);
}

std::string loss_text(const Config& config, const diloco::Layout& layout,
                      std::span<const float> decided, std::span<const float> changed) {
  if (!is_ours(config, layout))
    throw ConfigError(
        "--loss: this run trained a model that is not one of `causeway worker`; "
        "write both with --model and measure them there");
  const auto model = intra::make_model(config.model);
  const intra::Dataset dataset(config.data);
  const auto alone = intra::make_solo_collective();
  const auto loss = [&](std::span<const float> params) {
    return intra::validation_loss(*model, params, dataset, config.train.validation_sequences,
                                  *alone);
  };
  return "validation loss: " + format_fixed(loss(decided), 6) + " as decided, " +
         format_fixed(loss(changed), 6) + " as changed";
}

}  // namespace causeway::run
