#include "apps/run/doctor/card.h"

#include "apps/run/region/parse_object.h"

namespace causeway::run {

std::string to_json(const Card& card) {
  return nlohmann::json{
      {"doctor", card.region},
      {"program", card.program},
      {"time_unix_s", card.time_unix_s},
      {"settings", card.settings},
      {"packages", card.packages},
      {"data", {{"sha256", card.data.whole}, {"sample_sha256", card.data.sample}}}}
      .dump();
}

std::string to_observer(const Card& card) {
  return nlohmann::json{
      {"region", card.region},
      {"waiting", "`causeway doctor` checks this region; no coordinator runs there"}}
      .dump();
}

SharedData data_in(const nlohmann::json& json) {
  const nlohmann::json data = object_in(json, "data");
  return {.whole = get<std::string>(data, "sha256"),
          .sample = get<std::string>(data, "sample_sha256")};
}

std::optional<Card> parse_card(const std::string& text) {
  const auto json = parse_object(text);
  if (!json || !json->contains("doctor")) return std::nullopt;
  Card card{.region = get<std::string>(*json, "doctor"),
            .program = get<std::string>(*json, "program"),
            .time_unix_s = get<double>(*json, "time_unix_s"),
            .settings = get<std::string>(*json, "settings"),
            .data = data_in(*json),
            .packages = {}};
  const nlohmann::json packages = object_in(*json, "packages");
  for (const auto& [name, version] : packages.items()) {
    if (version.is_string()) card.packages[name] = version.get<std::string>();
  }
  return card;
}

}  // namespace causeway::run
