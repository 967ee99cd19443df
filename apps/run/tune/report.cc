// A tuning as JSON (docs/choosing-k.md) and as text.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/run/page/format.h"
#include "apps/run/tune/tune.h"

namespace causeway::run {
namespace {

using Json = nlohmann::ordered_json;
namespace tuner = diloco::tuner;

constexpr std::size_t kLinksShown = 90;  // of ten regions

Json optional(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// An error that one sample alone gives is infinite, which JSON cannot say.
Json finite(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

// Of traffic: not known without prices.
Json money(const Tuning& tuning, double value) {
  return tuning.prices.given ? Json(value) : Json(nullptr);
}

Json to_json(const Tuning& tuning, const tuner::Row& row) {
  return {{"k", row.k},
          {"inner_optimizer", row.inner.empty() ? Json(nullptr) : Json(row.inner)},
          {"codec", row.codec},
          {"variant", tuner::to_string(row.overlap.variant)},
          {"predicted_round_s", row.round_s},
          {"measured_round_s", optional(row.measured_round_s)},
          {"predicted_as_measured_s", optional(row.predicted_as_measured_s)},
          {"predicted_utilisation", row.utilisation},
          {"predicted_time_to_loss_s", row.time_to_loss_s},
          {"fragments", row.overlap.fragments},
          {"overlap_steps", row.overlap.overlap_steps},
          {"topology", topology_name(row.topology)},
          {"exchange", exchange_name(row.exchange)},
          {"bits_per_parameter", row.bits_per_parameter},
          {"predicted_round_p95_s", row.round_s_p95},
          {"participation", row.participation},
          {"bytes_per_round", row.sent_bytes},
          {"cost_per_round", money(tuning, row.cost_per_round)},
          {"cost_to_loss", money(tuning, row.cost_to_loss)},
          {"complete", row.complete}};
}

Json to_json(const Recipe& recipe, const tuner::StatisticalPrice& price) {
  return {
      {"inner_optimizer", recipe.inner},
      {"codec", recipe.codec},
      {"variant", recipe.overlap ? Json(tuner::to_string(recipe.overlap->variant)) : Json(nullptr)},
      {"steps_factor", price.steps},
      {"steps_standard_error", finite(price.steps_error)},
      {"lambda", price.lambda},
      {"lambda_standard_error", finite(price.lambda_error)}};
}

Json to_json(const Probe& probe) {
  Json codecs = Json::array();
  for (const CodecProbe& codec : probe.codecs) {
    codecs.push_back({{"codec", codec.codec},
                      {"payload_bytes", codec.payload_bytes},
                      {"encode_s", codec.encode_s},
                      {"apply_s", codec.apply_s},
                      {"store_s", codec.store_s},
                      {"relative_squared_error", codec.relative_squared_error}});
  }
  return {{"parameters", probe.parameters},
          {"step_s", probe.step_s},
          {"step_deviation_s", probe.step_deviation_s},
          {"steps", probe.steps},
          {"timed_steps", probe.timed_steps},
          {"save_s", probe.save_s},
          {"codecs", codecs}};
}

Json to_json(const LinkProbe& link) {
  return {{"from", link.from},
          {"to", link.to},
          {"payload_bytes", link.payload_bytes},
          {"alpha_s", optional(link.alpha_s)},
          {"beta_s_per_byte", optional(link.beta_s_per_byte)},
          {"p50_s", optional(link.p50_s)},
          {"p95_s", optional(link.p95_s)}};
}

std::string link_text(const LinkProbe& link) {
  if (!link.alpha_s) return "delivers nothing";
  std::string out = format_fixed(*link.alpha_s, 3) + " s";
  if (link.beta_s_per_byte > 0) {
    out += " + bytes at " + format_fixed(8e-6 / *link.beta_s_per_byte, 2) + " Mbit/s";
  }
  if (!link.p50_s) return out;
  return out + "; " + format_bytes(double(link.payload_bytes)) + " take " +
         format_fixed(*link.p50_s, 3) + " s (p50), " + format_fixed(*link.p95_s, 3) + " s (p95)";
}

// Of many links the quickest, the middle and the slowest for a payload.
std::vector<LinkProbe> shown_links(std::vector<LinkProbe> links) {
  if (links.size() <= kLinksShown) return links;
  std::ranges::sort(links, {}, [](const LinkProbe& link) {
    constexpr double kNever = std::numeric_limits<double>::infinity();
    return link.alpha_s ? *link.alpha_s + double(link.payload_bytes) * *link.beta_s_per_byte
                        : kNever;
  });
  return {links.front(), links[links.size() / 2], links.back()};
}

std::string links_text(const Tuning& tuning) {
  const std::vector<LinkProbe> shown = shown_links(tuning.link_probes);
  std::string out = "Links, each alone";
  if (shown.size() < tuning.link_probes.size()) {
    out += fmt::format(" (the quickest, the middle and the slowest of {}; tune.json has all)",
                       tuning.link_probes.size());
  }
  out += ":\n";
  for (const LinkProbe& link : shown) {
    out += "  " + link.from + " to " + link.to + ": " + link_text(link) + "\n";
  }
  return out;
}

Json comparison(const Tuning& tuning) {
  const tuner::Row& best = tuning.recommended();
  const auto against = [&](const std::optional<std::size_t>& index) {
    if (!index) return Json(nullptr);
    const tuner::Row& other = tuning.forecast.rows[*index];
    return Json{{"k", other.k},
                {"predicted_time_to_loss_s", other.time_to_loss_s},
                {"saved_s", other.time_to_loss_s - best.time_to_loss_s},
                {"saved_cost", money(tuning, other.cost_to_loss - best.cost_to_loss)}};
  };
  const double synchronous_s = tuning.synchronous_time_s();
  return {{"synchronous_every_step",
           {{"steps", tuning.synchronous_steps()},
            {"predicted_time_to_loss_s", synchronous_s},
            {"saved_s", synchronous_s - best.time_to_loss_s},
            {"saved_cost", money(tuning, tuning.synchronous_cost() - best.cost_to_loss)},
            {"extra_steps_share",
             tuner::steps_factor(best, tuning.price) / tuning.price.lockstep_factor - 1}}},
          {"half_k", against(tuning.recommendation->half)},
          {"twice_k", against(tuning.recommendation->twice)}};
}

std::string padded(const std::string& text, std::size_t width) {
  return text.size() >= width ? text : std::string(width - text.size(), ' ') + text;
}

std::string row_text(const Tuning& tuning, std::size_t index) {
  const tuner::Row& row = tuning.forecast.rows[index];
  const bool best = tuning.recommendation && tuning.recommendation->row == index;
  std::string out = best ? " >" : "  ";
  out += padded(std::to_string(row.k), 7);
  if (!row.complete) return out + "   rounds do not complete";
  out += padded(format_fixed(row.round_s, 3), 11);
  out += padded(row.measured_round_s ? format_fixed(*row.measured_round_s, 3) : "-", 11);
  out += padded(format_fixed(100 * row.utilisation, 1), 9);
  out += padded(format_bytes(row.sent_bytes), 10);
  out += padded(format_duration(row.time_to_loss_s), 14);
  if (tuning.prices.given) out += padded(format_money(row.cost_to_loss), 10);
  if (row.participation < 0.995)
    out += "   " + format_fixed(100 * row.participation, 0) + " % take part";
  return out;
}

std::string table(const Tuning& tuning) {
  std::string out, group;
  for (std::size_t i = 0; i < tuning.forecast.rows.size(); ++i) {
    const tuner::Row& row = tuning.forecast.rows[i];
    const std::string title = describe(row);
    if (title != group) {
      group = title;
      out += "\n" + title + "\n        K  predicted   measured    util.     bytes  time to loss" +
             (tuning.prices.given ? "      cost" : "") +
             "\n            s/round    s/round        %" + "    /round\n";
    }
    out += row_text(tuning, i) + "\n";
  }
  return out;
}

std::string as_long(double other_s, double best_s) {
  return format_fixed(other_s / best_s, 2) + " times as long";
}

// What its traffic costs until the target loss, beside the alternatives'.
std::string costs(const Tuning& tuning) {
  if (!tuning.prices.given) return {};
  std::string out = "  traffic costs " + format_money(tuning.recommended().cost_to_loss) +
                    "; synchronising every step " + format_money(tuning.synchronous_cost());
  for (const auto& [row, name] : {std::pair(tuning.recommendation->half, ", half of K "),
                                  std::pair(tuning.recommendation->twice, ", twice K ")}) {
    if (row) out += name + format_money(tuning.forecast.rows[*row].cost_to_loss);
  }
  return out + "\n";
}

std::string verdict(const Tuning& tuning) {
  if (!tuning.recommendation) return "\nNo recommendation.\n";
  const tuner::Row& best = tuning.recommended();
  std::string out =
      fmt::format("\nRecommended: K = {} ({} to {} hardly differ), {}\n", best.k,
                  tuning.recommendation->low, tuning.recommendation->high, describe(best));
  out += "  utilisation " + format_fixed(100 * best.utilisation, 1) + " %, a round of " +
         format_fixed(best.round_s, 2) + " s (95 % within " + format_fixed(best.round_s_p95, 2) +
         "), " + format_bytes(best.sent_bytes) + " over the WAN in each\n";
  out += "  to the loss of " + format_count(tuning.steps) +
         " steps: " + format_duration(best.time_to_loss_s) +
         "; synchronising every step would take " +
         as_long(tuning.synchronous_time_s(), best.time_to_loss_s);
  for (const auto& [row, name] : {std::pair(tuning.recommendation->half, ", half of K "),
                                  std::pair(tuning.recommendation->twice, ", twice K ")}) {
    if (!row) continue;
    out += name + as_long(tuning.forecast.rows[*row].time_to_loss_s, best.time_to_loss_s);
  }
  out += "\n" + costs(tuning);
  if (tuning.settings.empty()) return out + "  The configuration says all this already.\n";
  out += "  To set in the configuration:\n";
  for (const std::string& line : tuning.settings) out += "    " + line + "\n";
  return out;
}

}  // namespace

std::string describe(const tuner::Overlap& overlap) {
  std::string out(tuner::to_string(overlap.variant));
  if (overlap.variant == tuner::Variant::streaming) {
    out += fmt::format(" P={} tau={}", overlap.fragments, overlap.overlap_steps);
  }
  return out;
}

std::string describe(const tuner::Row& row) {
  return (row.price && !row.inner.empty() ? row.inner + ", " : "") + row.codec + ", " +
         describe(row.overlap) + (row.topology ? ", " + topology_name(row.topology) : "") +
         describe_exchange(row.exchange);
}

std::string topology_name(const std::optional<inter::Shape>& topology) {
  return topology ? inter::to_string(*topology) : "auto";
}

std::string describe_exchange(diloco::ExchangeKind exchange) {
  if (exchange == diloco::ExchangeKind::full) return "";
  return exchange == diloco::ExchangeKind::sharded ? ", sharded" : ", exchange auto";
}

std::string exchange_name(diloco::ExchangeKind exchange) {
  switch (exchange) {
    case diloco::ExchangeKind::full:
      return "full";
    case diloco::ExchangeKind::sharded:
      return "sharded";
    case diloco::ExchangeKind::automatic:
      break;
  }
  return "auto";
}

std::string tuning_json(const Tuning& tuning) {
  Json json;
  if (tuning.recommendation) {
    const tuner::Row& best = tuning.recommended();
    json["recommended_k"] = best.k;
    json["interval"] = {tuning.recommendation->low, tuning.recommendation->high};
    json["confidence"] = tuning.confidence;
    json["recommended"] = to_json(tuning, best);
    json["settings"] = tuning.settings;
    json["comparison"] = comparison(tuning);
  } else {
    json["recommended_k"] = json["interval"] = nullptr;
    json["confidence"] = tuning.confidence;
  }
  json["lambda"] = tuning.price.lambda;
  json["lambda_standard_error"] =
      tuning.price.lambda_error > 0 ? Json(tuning.price.lambda_error) : Json(nullptr);
  json["k_reference"] = tuning.price.k_reference;
  const tuner::LambdaFit& fit = tuning.calibration.fit;
  json["lockstep_steps_factor"] = optional(fit.lockstep_factor);
  json["lockstep_standard_error"] = fit.lockstep_factor && std::isfinite(fit.lockstep_error)
                                        ? Json(fit.lockstep_error)
                                        : Json(nullptr);
  json["calibration_seeds"] = tuning.calibration.triples;
  json["recipes"] = Json::array();
  for (const auto& [recipe, price] : tuning.calibration.prices)
    json["recipes"].push_back(to_json(recipe, price));
  json["reasons"] = tuning.reasons;
  json["warnings"] = tuning.warnings;
  json["links"] = tuning.links;
  json["topology"] = tuning.forecast.topology;
  json["topology_gain_s"] = tuning.forecast.topology_gain_s;
  json["synchronous_step_s"] = tuning.forecast.synchronous_step_s;
  json["probe"] = to_json(tuning.probe);
  json["link_probes"] = Json::array();
  for (const LinkProbe& link : tuning.link_probes) json["link_probes"].push_back(to_json(link));
  json["rows"] = Json::array();
  for (const tuner::Row& row : tuning.forecast.rows) json["rows"].push_back(to_json(tuning, row));
  return json.dump(2) + "\n";
}

std::string tuning_text(const Tuning& tuning) {
  std::string out =
      fmt::format("{}: {} parameters, {} regions, links {}\n", tuning.name,
                  format_count(tuning.probe.parameters), tuning.regions.size(), tuning.links);
  out += "An inner step takes " + format_fixed(1e3 * tuning.probe.step_s, 2) + " ms" +
         (tuning.probe.steps > 0 ? fmt::format(" +- {} ({} steps)",
                                               format_fixed(1e3 * tuning.probe.step_deviation_s, 2),
                                               tuning.probe.steps)
                                 : "") +
         "; synchronising every step would make it " +
         format_duration(tuning.forecast.synchronous_step_s) + ".\n";
  for (const CodecProbe& codec : tuning.probe.codecs) {
    out += codec.codec + ": payload " + format_bytes(double(codec.payload_bytes)) + ", " +
           format_fixed(codec.bits_per_parameter, 3) + " bits per parameter; encode " +
           format_fixed(1e3 * codec.encode_s, 1) + " ms, apply " +
           format_fixed(1e3 * codec.apply_s, 1) + " ms, store " +
           format_fixed(1e3 * codec.store_s, 1) + " ms\n";
  }
  out += links_text(tuning) + table(tuning) + verdict(tuning);
  if (tuning.forecast.topology_gain_s > 0.01) {
    out += "  by latency and bandwidth alone an exchange takes " +
           format_fixed(tuning.forecast.topology_gain_s, 2) + " s less with " +
           tuning.forecast.topology + " than directly; links.topology = auto chooses it\n";
  }
  out += "Confidence: " + tuning.confidence + "\n";
  for (const std::string& reason : tuning.reasons) out += "  - " + reason + "\n";
  for (const std::string& warning : tuning.warnings) out += "WARNING: " + warning + "\n";
  return out;
}

}  // namespace causeway::run
