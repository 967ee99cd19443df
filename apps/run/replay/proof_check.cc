#include "apps/run/replay/proof_check.h"

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "apps/run/config/config.h"
#include "apps/run/replay/proof_draw.h"
#include "apps/run/replay/proof_report.h"
#include "apps/run/replay/proof_rules.h"
#include "apps/run/replay/replay.h"
#include "apps/run/replay/replay_source.h"
#include "apps/run/replay/retraining.h"
#include "apps/run/verify/applied_payloads.h"
#include "intra/base/error.h"
#include "intra/worker/round_proof.h"

namespace causeway::run {
namespace {

constexpr std::size_t kMachineShown = 200;  // bytes

Finding differs(const std::string& text) {
  return {Finding::Kind::differs, text};
}

Finding unchecked(const std::string& why) {
  return {Finding::Kind::unchecked, why};
}

class ProofChecker {
 public:
  explicit ProofChecker(const ProofCheckOptions& options)
      : options_(options),
        source_(options.paths, options.certificates,
                [&](const RegionDirectories& directories) {
                  return reference_config(options.config, directories, options.overrides);
                }),
        layout_(source_.layout()),
        directories_(source_.directories()) {
    const Config& config = source_.config();
    if (config.train.prove_steps == 0)
      throw ConfigError(
          "--inner: this run did not prove its steps: set ledger.prove_steps in its configuration "
          "before a run that is to be checked");
    if (!config.built_in_trainer() || !is_native_model(config, layout_))
      throw ConfigError(
          "--inner: the states that regions kept are not of the model of the run's configuration, "
          "so no step can be taken here");
  }

  ProofCheck run() {
    collect();
    compare_settings();
    const std::string seed = options_.seed.empty() ? random_seed() : options_.seed;
    if (options_.sample < 1)
      options_.say("drawn with --seed " + seed + ": with it, the same are drawn again");
    const auto drawn =
        draw_proofs(source_, proven_, seed, options_.sample, source_.config().train.proofs_kept);
    for (const diloco::ContributionKey& key : drawn) report_.note(key, check(key, proven_.at(key)));
    return report_.end();
  }

 private:
  void collect() {
    for (diloco::Round round = 0; round < source_.rounds(); ++round) {
      for (const diloco::Participant& one : source_.record(round).participants) {
        const Listed listed{&one, round};
        all_.push_back(listed);
        if (one.proof) proven_.emplace(key_of(one), listed);
        report_.count(one);
      }
    }
  }

  // A region that changed what it trained by may have changed the file too.
  void compare_settings() {
    for (const auto& [region, directory] : directories_) {
      try {
        const auto& rules =
            rules_.emplace(region, proof_rules(source_.config(), directory, options_.overrides))
                .first->second;
        if (rules.differences.empty()) continue;
        report_.note_settings(region, rules.differences);
      } catch (const std::exception& error) {
        problems_[region] = error.what();
      }
    }
  }

  // ---- One contribution ----

  Finding check(const diloco::ContributionKey& key, const Listed& listed) {
    const auto directory = directories_.find(key.region);
    if (directory == directories_.end())
      return unchecked("the directory of this region was not given");
    if (const auto problem = problems_.find(key.region); problem != problems_.end())
      return unchecked("its configuration cannot be used: " + problem->second);
    try {
      const diloco::Train order = order_of(source_, key.region, key.round);
      const auto proof = intra::read_proof(intra::proof_leaves_file(directory->second, key.round),
                                           leaves_due(order));
      if (const auto finding = check_claims(proof, order, *listed.participant)) return *finding;
      return train_again(proof, order, listed);
    } catch (const std::system_error& error) {
      const bool of_proof = error.code() == intra::Errc::bad_checkpoint;
      return unchecked(
          intra::message_of(error) +
          (of_proof ? fmt::format(" (a region keeps its newest {} rounds, ledger.proofs_kept)",
                                  rules_.at(key.region).config.train.proofs_kept)
                    : ""));
    } catch (const std::exception& error) {
      return unchecked(error.what());
    }
  }

  std::size_t leaves_due(const diloco::Train& order) const {
    const std::size_t every = source_.config().train.prove_steps;
    return (order.k + every - 1) / every + 1;
  }

  // What the records alone say against it. Leaves of another root are nobody's word.
  std::optional<Finding> check_claims(const intra::RoundProof& proof, const diloco::Train& order,
                                      const diloco::Participant& made) const {
    if (proof.region != made.region || proof.round != made.round || proof.root() != *made.proof)
      return unchecked(
          "the leaves that it kept are not those of its record: they are damaged, or were changed, "
          "and prove nothing");
    const intra::ProofLeaf &first = proof.leaves.front(), &last = proof.leaves.back();
    if (diloco::state_digest(first.params, proof.momentum) != source_.record(made.round).state)
      return differs(fmt::format("it did not begin with the parameters of version {}", made.round));
    if (proof.threads > omp_get_num_procs())
      return unchecked(
          fmt::format("its steps used {} threads, and this machine has {}: check it "
                      "on a larger one",
                      proof.threads, omp_get_num_procs()));
    if (last.steps != order.k)
      return differs(
          fmt::format("it took {} steps where the run asked for {}", last.steps, order.k));
    if (proof.leaves.size() != leaves_due(order))
      return differs(fmt::format("it has {} leaves where {} were due", proof.leaves.size(),
                                 leaves_due(order)));
    const std::uint64_t every = source_.config().train.prove_steps;
    for (std::size_t i = 0; i < proof.leaves.size(); ++i) {
      const std::uint64_t due = std::min<std::uint64_t>(order.k, i * every);
      if (proof.leaves[i].steps != due)
        return differs(fmt::format("leaf {} is of step {} where step {} was due", i,
                                   proof.leaves[i].steps, due));
    }
    if (first.data_cursor != made.data_begin || last.data_cursor != made.data_cursor)
      return differs("its leaves and its record name other samples");
    return std::nullopt;
  }

  Finding train_again(const intra::RoundProof& proof, diloco::Train order, const Listed& listed) {
    const diloco::Participant& made = *listed.participant;
    order.data_cursor = made.data_begin;
    const auto result =
        retraining_of(made.region).train(proof, order, source_.record(made.round).state);
    const std::size_t leaves = result.leaves.size() - 1;
    const std::string wrong = difference(proof.leaves[leaves], result.leaves[leaves]);
    if (leaves == 0 && !wrong.empty())
      return unchecked("the state that it kept is not the one of its first leaf (" + wrong +
                       " differ): it is damaged, or was never there");
    const std::string elsewhere =
        proof.machine == intra::machine_kind()
            ? ""
            : fmt::format("it names another kind of machine ({}; here: {}): check it there. ",
                          quoted_line(proof.machine, kMachineShown), intra::machine_kind());
    if (!wrong.empty()) {
      const std::string text =
          fmt::format("the first leaf that differs is number {} of {}, after step {}: {}", leaves,
                      proof.leaves.size() - 1, proof.leaves[leaves].steps, wrong);
      return elsewhere.empty() ? differs(text) : unchecked(elsewhere + text);
    }
    if (result.payload.empty() ||
        listed_hash(result.payload, source_.record(listed.record)) != made.payload.hash)
      return differs("its steps are right, but its payload is not what they lead to" +
                     origin_of(made));
    return {
        Finding::Kind::same,
        fmt::format("{} lea{} after the first, and the payload, are the same{}", leaves,
                    leaves == 1 ? "f" : "ves",
                    begins_anew(proof) ? "; its optimizer's state is not the one that the round "
                                         "before ended with, as after a restart"
                                       : "")};
  }

  Retraining& retraining_of(const std::string& region) {
    auto& known = retraining_[region];
    if (!known)
      known = std::make_unique<Retraining>(rules_.at(region).config, region,
                                           directories_.at(region), layout_);
    return *known;
  }

  // Of a payload that is somebody else's, or an old one.
  std::string origin_of(const diloco::Participant& made) const {
    for (const Listed& other : all_) {
      const diloco::Participant& one = *other.participant;
      if (one.payload.hash == made.payload.hash && key_of(one) != key_of(made))
        return fmt::format(": it is that of {} in round {}", one.region, one.round);
    }
    return ": it is made up";
  }

  // Whether the round before, if its proof is here and right, ended with another optimizer's state.
  bool begins_anew(const intra::RoundProof& proof) const {
    if (proof.round == 0) return false;
    const auto before = proven_.find({proof.region, proof.round - 1, 0});
    if (before == proven_.end()) return false;
    try {
      const auto kept = intra::read_proof(
          intra::proof_leaves_file(directories_.at(proof.region), proof.round - 1),
          leaves_due(order_of(source_, proof.region, proof.round - 1)));
      const intra::ProofLeaf &end = kept.leaves.back(), &begin = proof.leaves.front();
      return kept.root() == *before->second.participant->proof &&
             (end.first_moment != begin.first_moment || end.second_moment != begin.second_moment);
    } catch (const std::system_error&) {
      return false;  // not kept any more
    }
  }

  const ProofCheckOptions& options_;
  const ReplaySource source_;
  const diloco::Layout layout_;
  const RegionDirectories directories_;
  std::map<std::string, ProofRules> rules_;
  std::map<std::string, std::string> problems_;  // of regions that have no rules
  ListedByKey proven_;
  std::vector<Listed> all_;
  std::map<std::string, std::unique_ptr<Retraining>> retraining_;
  ProofReport report_{options_.say};
};

}  // namespace

ProofCheck check_proofs(const ProofCheckOptions& options) {
  return ProofChecker(options).run();
}

}  // namespace causeway::run
