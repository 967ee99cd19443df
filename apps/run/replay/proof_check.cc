#include "apps/run/replay/proof_check.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "apps/run/config/config.h"
#include "apps/run/replay/replay.h"
#include "apps/run/replay/replay_source.h"
#include "apps/run/replay/retraining.h"
#include "diloco/files/archive.h"
#include "intra/base/error.h"
#include "intra/worker/round_proof.h"

namespace causeway::run {
namespace {

// A contribution that a record lists.
struct Listed {
  const diloco::Participant* participant = nullptr;
  diloco::Round record = 0;
};

struct Finding {
  enum class Kind { same, differs, unchecked };
  Kind kind = Kind::same;
  std::string text;
};

Finding differs(const std::string& text) {
  return {Finding::Kind::differs, text};
}

Finding unchecked(const std::string& why) {
  return {Finding::Kind::unchecked, why};
}

// In [0, 1), by what nobody knew when the contribution was made.
double lot(const diloco::Digest& later, const diloco::ContributionKey& key) {
  const std::string text = fmt::format("{} {} {}", diloco::to_hex(later), key.region, key.round);
  const diloco::Digest hash = diloco::sha256(std::as_bytes(std::span(text)));
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < sizeof bits; ++i) bits = bits << 8 | hash[i];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

class ProofChecker {
 public:
  explicit ProofChecker(const ProofCheckOptions& options)
      : options_(options),
        source_(options.paths, options.certificates, options.overrides),
        layout_(source_.layout()),
        directories_(source_.directories()) {
    if (source_.config().train.prove_steps == 0)
      throw ConfigError(
          "--inner: this run did not prove its steps: set ledger.prove_steps in its configuration "
          "before a run that is to be checked");
  }

  ProofCheck run() {
    collect();
    for (const auto& [key, listed] : proven_) {
      if (!is_drawn(key, listed)) continue;
      ++drawn_;
      note(key, check(key, listed));
    }
    tell();
    return std::move(result_);
  }

 private:
  void collect() {
    for (diloco::Round round = 0; round < source_.rounds(); ++round) {
      for (const diloco::Participant& one : source_.record(round).participants) {
        const Listed listed{&one, round};
        if (one.proof) {
          proven_.emplace(key_of(one), listed);
        } else {
          ++without_[one.region];
        }
        all_.push_back(listed);
      }
    }
  }

  bool is_drawn(const diloco::ContributionKey& key, const Listed& listed) const {
    if (options_.sample >= 1) return true;
    const diloco::Round later = listed.record + 1;
    return later < source_.rounds() && lot(source_.history_hash(later), key) < options_.sample;
  }

  void say(const std::string& line) { result_.lines.push_back(line); }

  void note(const diloco::ContributionKey& key, const Finding& finding) {
    const std::string who = fmt::format("{}, round {}: ", key.region, key.round);
    switch (finding.kind) {
      case Finding::Kind::same:
        ++result_.same;
        return say(who + finding.text);
      case Finding::Kind::differs:
        ++result_.differ;
        return say("DIFFERS: " + who + finding.text);
      case Finding::Kind::unchecked:
        ++result_.unchecked;
        return say("not checked: " + who + finding.text);
    }
  }

  void tell() {
    for (const auto& [region, count] : without_)
      say(
          fmt::format("{} contribution{} of {} {} no proof, as after a restart in the middle of a "
                      "round, or of whoever does not want to be checked",
                      count, count == 1 ? "" : "s", region, count == 1 ? "has" : "have"));
    say(fmt::format(
        "of {} contributions with a proof {} were drawn: {} trained again with the same "
        "bits, {} different, {} not checked",
        proven_.size(), drawn_, result_.same, result_.differ, result_.unchecked));
  }

  // ---- One contribution ----

  Finding check(const diloco::ContributionKey& key, const Listed& listed) {
    const auto directory = directories_.find(key.region);
    if (directory == directories_.end())
      return unchecked("the directory of this region was not given");
    try {
      const auto proof = intra::read_proof(intra::proof_leaves_file(directory->second, key.round));
      if (const auto finding = check_claims(proof, *listed.participant)) return *finding;
      return train_again(proof, *listed.participant);
    } catch (const std::system_error& error) {
      if (error.code() != intra::Errc::bad_checkpoint) throw;
      return unchecked(fmt::format("{} (a region keeps its newest {} rounds, ledger.proofs_kept)",
                                   intra::message_of(error), source_.config().train.proofs_kept));
    }
  }

  // What the records alone say against it.
  std::optional<Finding> check_claims(const intra::RoundProof& proof,
                                      const diloco::Participant& made) const {
    if (proof.region != made.region || proof.round != made.round || proof.root() != *made.proof)
      return differs("the leaves that it kept are not those of its record");
    const intra::ProofLeaf &first = proof.leaves.front(), &last = proof.leaves.back();
    if (diloco::state_digest(first.params, proof.momentum) != source_.record(made.round).state)
      return differs(fmt::format("it did not begin with the parameters of version {}", made.round));
    const diloco::Train order = order_of(source_, made.region, made.round);
    if (last.steps != order.k)
      return differs(
          fmt::format("it took {} steps where the run asked for {}", last.steps, order.k));
    const std::uint32_t every = source_.config().train.prove_steps;
    for (std::size_t i = 0; i < proof.leaves.size(); ++i) {
      const std::uint32_t due = std::min(order.k, static_cast<std::uint32_t>(i) * every);
      if (proof.leaves[i].steps != due)
        return differs(fmt::format("leaf {} is of step {} where step {} was due", i,
                                   proof.leaves[i].steps, due));
    }
    if (first.data_cursor != made.data_begin || last.data_cursor != made.data_cursor)
      return differs("its leaves and its record name other samples");
    return std::nullopt;
  }

  Finding train_again(const intra::RoundProof& proof, const diloco::Participant& made) {
    diloco::Train order = order_of(source_, made.region, made.round);
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
                          proof.machine, intra::machine_kind());
    if (!wrong.empty()) {
      const std::string text =
          fmt::format("the first leaf that differs is number {} of {}, after step {}: {}", leaves,
                      proof.leaves.size() - 1, proof.leaves[leaves].steps, wrong);
      return elsewhere.empty() ? differs(text) : unchecked(elsewhere + text);
    }
    if (result.payload != made.payload.hash)
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
    if (!known) {
      const auto& directory = directories_.at(region);
      const Config config =
          diloco::has_archive(directory)
              ? load_config(diloco::archived_config(directory), options_.overrides)
              : source_.config();
      known = std::make_unique<Retraining>(config, region, directory, layout_);
    }
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
          intra::proof_leaves_file(directories_.at(proof.region), proof.round - 1));
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
  const std::map<std::string, std::filesystem::path> directories_;
  std::map<diloco::ContributionKey, Listed> proven_;
  std::vector<Listed> all_;
  std::map<std::string, std::size_t> without_;
  std::map<std::string, std::unique_ptr<Retraining>> retraining_;
  std::size_t drawn_ = 0;
  ProofCheck result_;
};

}  // namespace

ProofCheck check_proofs(const ProofCheckOptions& options) {
  return ProofChecker(options).run();
}

}  // namespace causeway::run
