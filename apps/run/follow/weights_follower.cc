#include "apps/run/follow/weights_follower.h"

#include <chrono>
#include <system_error>
#include <utility>

#include <spdlog/spdlog.h>

#include "apps/run/follow/weights_image.h"
#include "apps/run/follow/weights_patch.h"
#include "diloco/files/error.h"
#include "diloco/files/file_io.h"
#include "inter/base/error.h"
#include "inter/base/text.h"
#include "inter/blob/spool_files.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;
using diloco::SignedWeights;

constexpr std::chrono::milliseconds kNotAgreedYet{300};  // regions differ by less than a round

std::string hex_of(const std::string& bytes) {
  return inter::hex({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

// What is kept of an image in current.json: the name that a spool gives it.
std::string name_of(const inter::BlobId& image) {
  return inter::blob_path("", image).filename().string();
}

}  // namespace

WeightsFollower::WeightsFollower(asio::any_io_executor executor, const Config& config,
                                 FollowOptions options, FollowReport& report)
    : FollowLoop(std::move(executor), config, std::move(options), report, kNotAgreedYet) {}

// The version that is published, if its image is still here.
void WeightsFollower::restore() {
  const nlohmann::ordered_json published = report_.look().published;
  if (published.is_null()) return;
  run_id_ = published.value("run", "");
  const auto image = inter::named_blob(published.value("image", ""));
  const auto state = diloco::from_hex(published.value("digest", ""));
  if (!image || !state || !spool_.has(*image)) return;
  held_ = {.version = published.value("version", diloco::Round{0}),
           .state = *state,
           .image = *image,
           .signature = {}};
  spdlog::info("goes on from version {}", held_->version);
}

diloco::FollowerQuestion WeightsFollower::question(bool wait) const {
  diloco::FollowerQuestion question{.first = 0, .wait = wait, .weights = true};
  if (held_) {
    question.first = held_->version + options_.every;
    question.held = held_->image;
  }
  return question;
}

// False: there was nothing that could be done.
asio::awaitable<bool> WeightsFollower::step(Link& link) {
  const diloco::FollowerAnswer answer = co_await link.ask(question(true));
  check(link, answer);
  const WeightsVotes votes = co_await hear(link, answer);
  const auto agreed = choose(votes, answer);
  waits_for_ = agreed ? "" : votes.summary();
  if (!agreed) co_return false;
  agreed_ = agreed->weights.version;
  const auto end = votes.end();
  const bool final = end && *end == diloco::Applied{agreed->weights.version, agreed->weights.state};
  if (held_ && held_->same_weights(agreed->weights)) {
    if (final) finish();
    co_return false;
  }
  if (!final && !is_due(agreed->weights)) co_return false;
  const bool patched =
      !answer.weights.empty() && answer.weights.back().same_weights(agreed->weights);
  const bool here = co_await bring(link, agreed->weights, patched ? answer.patch : std::nullopt);
  if (!here) co_return false;
  run_id_ = answer.run_id;
  publish(*agreed, final);
  over_ = final;
  co_return true;
}

bool WeightsFollower::is_due(const SignedWeights& weights) const {
  return !held_ || weights.version >= held_->version + options_.every ||
         weights.version <= held_->version;
}

// What the link has a patch to, rather than something newer to which nobody here has one.
std::optional<WeightsVotes::Agreed> WeightsFollower::choose(
    const WeightsVotes& votes, const diloco::FollowerAnswer& answer) const {
  if (answer.patch && held_ && !answer.weights.empty()) {
    const SignedWeights& newest = answer.weights.back();
    auto agreed = votes.agreed(newest);
    if (agreed && newest.version > held_->version && is_due(newest)) return agreed;
  }
  return votes.newest(held_);
}

void WeightsFollower::check(const Link& link, const diloco::FollowerAnswer& answer) {
  other_regions_.check_run(options_, run_id_, link.region(), answer.run_id);
  if (!answer.entries.empty())
    throw inter::LinkError(inter::Errc::bad_frame,
                           "its program is older and offers no weights: update it, or follow with "
                           "--by payloads");
  if (answer.run_id.empty()) throw inter::LinkError(inter::Errc::bad_frame, "it is in no run yet");
  if (!answer.settings.empty())
    other_regions_.check_settings(options_, config_, link.region(), answer.settings);
}

// The region that is asked, and others, until enough agree.
asio::awaitable<WeightsVotes> WeightsFollower::hear(Link& link,
                                                    const diloco::FollowerAnswer& answer) {
  WeightsVotes votes(options_.trusted, options_.signatures);
  votes.add(link.region(), answer, regions_.context());
  std::size_t elsewhere = 0;  // in another run
  for (const std::string& region : regions_.in_order(votes.trusted())) {
    const auto agreed = choose(votes, answer);
    const bool enough = agreed && !(held_ && held_->same_weights(agreed->weights));
    if (enough && (!answer.finished || votes.end())) break;
    if (region == link.region()) continue;
    Link* const other = co_await regions_.link(region);
    if (other == nullptr) continue;
    std::string failure;
    try {
      const diloco::FollowerAnswer theirs = co_await other->ask(question(false));
      if (theirs.run_id == answer.run_id) {
        votes.add(region, theirs, regions_.context());
      } else if (!theirs.run_id.empty()) {
        ++elsewhere;
      }
    } catch (const inter::LinkError& error) {
      failure = error.reason();
    }
    if (!failure.empty()) regions_.drop(region, failure);
  }
  if (elsewhere >= options_.signatures)
    throw inter::LinkError(inter::Errc::bad_frame, "it is in another run than most regions");
  co_return votes;
}

// ---- An image ----

// Into the spool. False: nobody has it any more.
asio::awaitable<bool> WeightsFollower::bring(Link& link, const SignedWeights& wanted,
                                             const std::optional<inter::BlobId>& patch) {
  if (spool_.has(wanted.image)) co_return true;
  const bool useful =
      patch && held_ && patch->size_bytes < wanted.image.size_bytes && patch != held_->image;
  if (useful) {
    const bool here = co_await bring_patch(link, wanted, *patch);
    if (here) co_return true;
  }
  spdlog::info("fetches the weights of version {}, {} kB", wanted.version,
               wanted.image.size_bytes / 1000);
  co_return co_await regions_.fetch(link, wanted.image, spool_);
}

// False: without it, then.
asio::awaitable<bool> WeightsFollower::bring_patch(Link& link, const SignedWeights& wanted,
                                                   inter::BlobId patch) {
  const bool here = co_await regions_.fetch_from(link, patch, spool_);
  if (!here) co_return false;
  const auto draft = spool_.draft(wanted.image.size_bytes);
  std::string wrong;
  try {
    apply_weights_patch(spool_.path(held_->image), spool_.path(patch), draft->path());
    if (inter::identify(draft->path()) != wanted.image)
      wrong = "makes other weights than most regions have signed";
  } catch (const std::system_error& error) {
    if (error.code() != make_error_code(diloco::Errc::malformed)) throw;
    wrong = error.what();
  }
  spool_.remove(patch);
  if (!wrong.empty()) {
    refuse_patch(wrong);
    co_return false;
  }
  spool_.finish(*draft, wanted.image);
  spdlog::info("fetched a patch to version {}, {} kB instead of {} kB", wanted.version,
               patch.size_bytes / 1000, wanted.image.size_bytes / 1000);
  co_return true;
}

// It is the patch that is wrong, or what it was applied to.
void WeightsFollower::refuse_patch(const std::string& why) {
  const inter::BlobId ours = held_->image;
  const auto damage = inter::damage_of(spool_.path(ours), ours);
  if (!damage) throw inter::LinkError(inter::Errc::bad_frame, "its patch " + why);
  spdlog::warn("the weights of version {} were damaged here: {}; whole ones are fetched",
               held_->version, *damage);
  spool_.remove_damaged(ours, *damage);
  held_.reset();
}

// ---- What servers load ----

void WeightsFollower::publish(const WeightsVotes::Agreed& agreed, bool final) {
  const SignedWeights& weights = agreed.weights;
  nlohmann::ordered_json facts{{"run", run_id_},
                               {"version", weights.version},
                               {"digest", diloco::to_hex(weights.state)},
                               {"final", final},
                               {"dtype", options_.dtype()},
                               {"image", name_of(weights.image)},
                               {"signatures", nlohmann::ordered_json::object()}};
  for (const auto& [region, signature] : agreed.signatures)
    facts["signatures"][region] = hex_of(signature);
  const nlohmann::ordered_json there = report_.look().published;
  const auto same = [&](const char* key) { return !there.is_null() && there[key] == facts[key]; };
  held_ = weights;
  tidy_spool(weights.image);
  if (same("run") && same("digest") && same("dtype")) {  // which somebody may be reading
    facts["model_sha256"] = there.value("model_sha256", "");
    versions_.amend(facts);
    return report_.publish(std::move(facts));
  }
  const auto write = [&](const fs::path& directory) {
    WeightsImage(spool_.path(weights.image)).write_model(directory, config_, run_id_);
  };
  report_.publish(versions_.publish(weights.version, weights.state, write, std::move(facts)));
  spdlog::info("version {} of run {} is in {}", weights.version, run_id_,
               (options_.directory / "current").string());
}

// Of all other images and patches, and of their beginnings.
void WeightsFollower::tidy_spool(const inter::BlobId& kept) {
  for (const inter::BlobId& blob : spool_.complete())
    if (blob != kept) spool_.remove(blob);
  for (const inter::BlobId& blob : spool_.begun()) spool_.remove(blob);
  spool_.release_spares();
}

void WeightsFollower::finish() {
  nlohmann::ordered_json there = report_.look().published;
  there["final"] = true;
  versions_.amend(there);
  report_.publish(std::move(there));
  over_ = true;
}

}  // namespace causeway::run
