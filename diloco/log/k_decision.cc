// A decision on K on the wire and on disk.
#include "diloco/log/wire.h"

namespace causeway::diloco {
namespace {

void encode_spending(const Spending& spending, wire::Spending* out) {
  out->set_period(static_cast<wire::Spending::Period>(spending.period));
  out->set_limit(spending.limit);
  out->set_spent(spending.spent);
  out->set_round_cost(spending.round_cost);
  out->set_until_unix_s(spending.until_unix_s);
}

std::optional<Spending> decode_spending(const wire::KDecision& message) {
  if (!message.has_spending()) return std::nullopt;
  const wire::Spending& from = message.spending();
  if (!wire::Spending::Period_IsValid(from.period())) throw_malformed("a budget's period");
  check_measured({from.limit(), from.spent(), from.round_cost(), from.until_unix_s()},
                 "a budget's figure");
  return Spending{.period = static_cast<Spending::Period>(from.period()),
                  .limit = from.limit(),
                  .spent = from.spent(),
                  .round_cost = from.round_cost(),
                  .until_unix_s = from.until_unix_s()};
}

}  // namespace

void encode(const KDecision& decision, wire::KDecision* out) {
  out->set_verdict(static_cast<wire::KDecision::Verdict>(decision.verdict));
  out->set_from(decision.from);
  out->set_k(decision.k);
  out->set_step_s(decision.step_s);
  out->set_prepare_s(decision.prepare_s);
  out->set_exchange_s(decision.exchange_s);
  out->set_time_ratio(decision.time_ratio);
  out->set_held_out_before(decision.held_out_before);
  out->set_held_out_after(decision.held_out_after);
  out->set_standard_error(decision.standard_error);
  if (decision.spending) encode_spending(*decision.spending, out->mutable_spending());
}

KDecision decode(const wire::KDecision& from) {
  if (!wire::KDecision::Verdict_IsValid(from.verdict()) || from.k() == 0)
    throw_malformed("a decision on K that cannot be");
  check_measured({from.step_s(), from.prepare_s(), from.exchange_s(), from.time_ratio(),
                  from.standard_error()},
                 "a decision's figure");
  check_finite({from.held_out_before(), from.held_out_after()}, "a decision's loss");
  return {.verdict = static_cast<KDecision::Verdict>(from.verdict()),
          .from = from.from(),
          .k = from.k(),
          .step_s = from.step_s(),
          .prepare_s = from.prepare_s(),
          .exchange_s = from.exchange_s(),
          .time_ratio = from.time_ratio(),
          .held_out_before = from.held_out_before(),
          .held_out_after = from.held_out_after(),
          .standard_error = from.standard_error(),
          .spending = decode_spending(from)};
}

}  // namespace causeway::diloco
