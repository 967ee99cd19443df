// lying_worker CONFIG REGION DIRECTORY LIE@ROUND...: the worker of a region of `causeway worker`s,
// but for what it does in some rounds:
//   rate      it trains with another learning rate
//   batch     it trains on the batches of another region
//   copied    it contributes what another region contributed to the round before
//   made-up   it contributes numbers that no steps led to
//   nonsense  it contributes bytes that nobody can decode
//   huge      it contributes huge numbers, whose norm it says is that of its steps
//   settings  as rate, and the configuration that it keeps then says so
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "apps/run/config/config.h"
#include "compression/codecs/make_codec.h"
#include "compression/codecs/payload.h"
#include "diloco/files/archive.h"
#include "intra/worker/region_worker.h"

namespace {

using causeway::diloco::SealedBytes;

struct Liar {
  causeway::intra::WorkerOptions options;
  float right_lr = 0;
  std::map<causeway::diloco::Round, std::string> lies;
  SealedBytes others;  // a payload of the round before

  std::string lie_in(causeway::diloco::Round round) const {
    const auto lie = lies.find(round);
    return lie == lies.end() ? "" : lie->second;
  }
};

// Passes on what the coordinator and the worker say to each other, but for the lies.
class LyingSession final : public causeway::diloco::WorkerSession {
 public:
  LyingSession(Liar& liar, std::unique_ptr<WorkerSession> session)
      : liar_(liar), session_(std::move(session)) {}

  const causeway::diloco::Attachment& attachment() const override { return session_->attachment(); }
  causeway::diloco::Instruction next(const KeepWaiting& keep_waiting,
                                     std::uint32_t steps) override {
    auto told = session_->next(keep_waiting, steps);
    if (auto* train = std::get_if<causeway::diloco::Train>(&told)) {
      const std::string lie = liar_.lie_in(train->round);
      const bool other_rate = lie == "rate" || lie == "settings";
      liar_.options.inner.lr = other_rate ? 1.25F * liar_.right_lr : liar_.right_lr;
      if (lie == "batch") train->share.index = (train->share.index + 1) % train->share.count;
    }
    if (const auto* apply = std::get_if<causeway::diloco::Apply>(&told)) remember(*apply);
    return told;
  }
  bool called_back() override { return session_->called_back(); }
  void hand_over(const causeway::diloco::Contribution& made, const SealedBytes& payload) override {
    const std::string lie = liar_.lie_in(made.round);
    if (lie == "copied") return session_->hand_over(made, liar_.others);
    if (lie == "made-up") return session_->hand_over(made, made_up(payload));
    if (lie == "nonsense") return session_->hand_over(made, half_of(payload));
    if (lie == "huge") return session_->hand_over(made, huge(payload));
    session_->hand_over(made, payload);
  }
  bool await_stored() override { return session_->await_stored(); }
  void applied(causeway::diloco::Round version, const causeway::diloco::Digest& state) override {
    session_->applied(version, state);
  }
  void offer_snapshot(causeway::diloco::Round version, const causeway::diloco::Digest& state,
                      const std::filesystem::path& file) override {
    session_->offer_snapshot(version, state, file);
  }
  void report(const causeway::diloco::Progress& progress) override { session_->report(progress); }
  void data_read(const causeway::diloco::DataDigests& data) override { session_->data_read(data); }
  bool lost() override { return session_->lost(); }

 private:
  void remember(const causeway::diloco::Apply& apply) {
    for (std::size_t i = 0; i < apply.payloads.size(); ++i)
      if (apply.record.participants[i].region != liar_.options.region)
        liar_.others = SealedBytes(apply.payloads[i].bytes());
  }

  // In the middle lie the levels of a matrix: in another order they are as good as any.
  static SealedBytes made_up(const SealedBytes& payload) {
    std::vector<std::byte> bytes(payload.bytes().begin(), payload.bytes().end());
    const auto middle = bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size() / 2);
    std::reverse(middle, middle + 8);
    return SealedBytes(bytes);
  }

  static SealedBytes half_of(const SealedBytes& payload) {
    return SealedBytes(payload.bytes().first(payload.size() / 2));
  }

  static SealedBytes huge(const SealedBytes& payload) {
    auto changed = causeway::compression::read_payload(payload.bytes());
    std::vector<std::vector<std::byte>> encoded(changed.segments.size());
    for (std::size_t i = 0; i < encoded.size(); ++i) {
      auto& segment = changed.segments[i];
      std::vector<float> decoded(segment.element_count);
      causeway::compression::make_codec(changed.codec_specs[segment.codec])
          ->encode(std::vector<float>(segment.element_count, 1e30F), decoded, encoded[i]);
      segment.bytes = encoded[i];
    }
    return SealedBytes(causeway::compression::write_payload(changed.codec_specs, changed.segments));
  }

  Liar& liar_;
  std::unique_ptr<WorkerSession> session_;
};

// What the lie says, in the place of what the region kept.
void keep_false_settings(const causeway::run::Config& config, const char* directory) {
  causeway::run::Config changed = config;
  changed.inner.lr *= 1.25F;
  std::ofstream(causeway::diloco::archived_config(directory)) << causeway::run::to_toml(changed);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 4) return 2;
  const causeway::run::Config config = causeway::run::load_config(argv[1], {});
  Liar liar;
  liar.options = causeway::run::worker_options(config, argv[2], 0, argv[3]);
  liar.right_lr = liar.options.inner.lr;
  for (int i = 4; i < argc; ++i) {
    const std::string lie = argv[i];
    const std::size_t at = lie.find('@');
    liar.lies[std::stoull(lie.substr(at + 1))] = lie.substr(0, at);
  }
  const causeway::intra::Attach attach = [&](const auto& request, const auto& keep_waiting) {
    return std::make_unique<LyingSession>(
        liar, causeway::diloco::WorkerSession::attach(request, keep_waiting));
  };
  causeway::intra::RegionWorker(
      liar.options, [] { return false; }, attach)
      .run();
  for (const auto& [round, lie] : liar.lies)
    if (lie == "settings") keep_false_settings(config, argv[3]);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
