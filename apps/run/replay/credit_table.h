// What regions were worth to a run, in figures: from losses to a table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "diloco/maths/train.h"
#include "intra/step/evaluation.h"

namespace causeway::run {

// Nats per token of validation loss, with standard errors; none: from one sample nothing is known.
struct Worth {
  double value = 0;
  std::optional<double> batches_error;  // over the batches of the validation data
  std::optional<double> rounds_error;   // over the rounds, of what is a sum over them
};

// How much higher the loss was without a region, batch by batch. Batches are those of the same
// data each time, so that their differences say more than the losses do.
class LossDifference {
 public:
  // May be called several times: the differences add up.
  void add(const std::vector<intra::BlockLoss>& with, const std::vector<intra::BlockLoss>& without);
  // Their mean, weighted by windows, and its standard error over the batches.
  Worth worth() const;

 private:
  std::vector<intra::BlockLoss> batches_;
};

double mean_loss(const std::vector<intra::BlockLoss>& batches);
// The standard error of the sum of these values, taken as independent. None: there is one alone.
std::optional<double> error_of_sum(const std::vector<double>& values);

struct RegionCredit {
  std::string region;
  std::uint64_t rounds = 0;      // that list it
  std::uint64_t tokens = 0;      // of its contributions in them
  std::uint64_t sent_bytes = 0;  // its payloads, once to each other region
  std::optional<double> cost;    // of these, in the currency of links.prices
  Worth window;                  // without all of its contributions
  Worth singly;                  // the sum over rounds of what each contribution was worth alone
  std::vector<std::pair<diloco::Round, double>> by_round;

  double per_million_tokens() const;
  std::optional<double> per_cost() const;  // none: no prices, or nothing was sent
};

struct CreditTable {
  std::string run_id;
  diloco::Round first = 0, last = 0;  // rounds of the window
  double loss = 0;                    // after it, as the run went
  std::string data;                   // on what; in words
  std::uint64_t sequences = 0, batches = 0;
  std::vector<RegionCredit> regions;  // who was worth most comes first
};

// For people: a line of what was measured, the table, and what it is not.
std::vector<std::string> credit_lines(const CreditTable& table);
// A part of a report.
std::string credit_html(const CreditTable& table);
// In the run's directory (docs/outputs.md).
inline constexpr const char* kCreditFile = "credit.json";
std::string credit_json(const CreditTable& table);
// Nothing if it is not such a text.
std::optional<CreditTable> parse_credit(const std::string& json);

}  // namespace causeway::run
