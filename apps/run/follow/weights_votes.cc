#include "apps/run/follow/weights_votes.h"

#include <algorithm>

#include "inter/base/error.h"
#include "inter/base/text.h"
#include "inter/tls/signature.h"

namespace causeway::run {

using diloco::SignedWeights;

void WeightsVotes::add(const std::string& region, const diloco::FollowerAnswer& answer,
                       const inter::TlsContext& context) {
  if (std::ranges::find(trusted_, region) == trusted_.end()) return;
  std::vector<SignedWeights>& said = said_[region];
  said.clear();
  if (!answer.weights.empty()) {
    const inter::VerifyingKey key(answer.certificate, region, context);
    for (const SignedWeights& one : answer.weights) {
      if (!key.verify(signed_content(answer.run_id, one), one.signature))
        throw inter::LinkError(inter::Errc::bad_frame, "what it says of the weights of version " +
                                                           std::to_string(one.version) +
                                                           " is not signed by it");
      said.push_back(one);
    }
  }
  if (answer.finished) ends_[region] = *answer.finished;
}

std::optional<WeightsVotes::Agreed> WeightsVotes::agreed(const SignedWeights& weights) const {
  Agreed agreed{.weights = weights, .signatures = {}};
  for (const auto& [region, said] : said_) {
    const auto found = std::ranges::find_if(
        said, [&](const SignedWeights& one) { return one.same_weights(weights); });
    if (found != said.end()) agreed.signatures[region] = found->signature;
  }
  if (agreed.signatures.size() < needed_) return std::nullopt;
  return agreed;
}

std::string WeightsVotes::summary() const {
  std::string text;
  for (const auto& [region, said] : said_) {
    const std::string what =
        said.empty() ? "none" : "version " + std::to_string(said.back().version);
    inter::append_item(text, region + " has signed " + what);
  }
  return "no newer weights have the signatures of " + std::to_string(needed_) +
         " regions: " + (text.empty() ? "none answers" : text);
}

std::optional<WeightsVotes::Agreed> WeightsVotes::newest(
    const std::optional<SignedWeights>& ours) const {
  std::optional<Agreed> best;
  std::size_t behind = 0;
  for (const auto& [speaker, said] : said_) {
    const auto is_ours = [&](const SignedWeights& one) { return one.same_weights(*ours); };
    if (ours && !said.empty() && said.back().version <= ours->version &&
        std::ranges::none_of(said, is_ours))
      ++behind;
    for (const SignedWeights& candidate : said) {
      if (best && candidate.version <= best->weights.version) continue;
      if (auto enough = agreed(candidate)) best = std::move(enough);
    }
  }
  const bool older =
      best && ours && best->weights.version <= ours->version && !best->weights.same_weights(*ours);
  if (older && behind < needed_) return std::nullopt;
  return best;
}

std::optional<diloco::Applied> WeightsVotes::end() const {
  for (const auto& [region, end] : ends_) {
    const auto same = std::ranges::count(ends_, end, &decltype(ends_)::value_type::second);
    if (static_cast<std::size_t>(same) >= needed_) return end;
  }
  return std::nullopt;
}

}  // namespace causeway::run
