#include "apps/run/config/config_schema.h"

#include <algorithm>
#include <stdexcept>
#include <system_error>

#include "apps/run/config/key_builders.h"

namespace causeway::run {

using C = Keys<Config>;
using R = Keys<RegionConfig>;

namespace {

bool is_name(const std::string& text, bool (*allowed)(char)) {
  return !text.empty() && text.size() <= 63 && std::all_of(text.begin(), text.end(), allowed);
}
bool is_region_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
}
bool is_run_letter(char c) {
  return is_region_letter(c) || (c >= 'A' && c <= 'Z') || c == '_';
}

// Writes a name after checking its letters; it becomes part of paths and certificates.
auto name_writer(bool (*allowed)(char), std::string letters) {
  return [allowed, letters](auto& owner, const std::string& text) {
    if (!is_name(text, allowed)) throw std::invalid_argument("must be 1 to 63 of " + letters);
    owner.name = text;
  };
}

void add_run_keys(std::vector<Key<Config>>& keys) {
  keys.push_back(of_run(C::text_as(
      "run.name", [](const Config& c) { return c.name; },
      name_writer(is_run_letter, "[A-Za-z0-9_-]"), "1 to 63 of [A-Za-z0-9_-]",
      "Names the run: its directory and its certificate authority.")));
  keys.push_back(of_run(C::integer(
      "run.seed", "", [](auto& c) -> auto& { return c.train.seed; }, 0, kAnyInteger,
      "Seed of the initial weights, the order of the data and dropout.")));
  keys.push_back(of_run(C::choice<diloco::InitialValues>(
      "run.initial", [](auto& c) -> auto& { return c.sync.rules.initial; },
      {{"founder", diloco::InitialValues::founder}, {"equal", diloco::InitialValues::equal}},
      "For programs of your own: what the run begins with if their initial values differ. founder: "
      "the others take those of the region that founded the run, and say so. equal: a program with "
      "other values is refused, with the name of the first tensor that differs.")));
  keys.push_back(of_process(C::boolean(
      "run.require_doctor", [](auto& c) -> auto& { return c.requires_doctor; },
      "A coordinator founds or joins the run only if `causeway doctor` ran within the last day, "
      "with this configuration and directory, and found no failure.")));
}

Key<Config> tensor_codecs_key() {
  auto key = C::make("codec.tensors", "list of texts",
                     "Codecs of single matrices by name: the first pattern that matches is used, "
                     "codec.matrix if none does.");
  key.allowed = "\"PATTERN=CODEC\", with a shell pattern, as in \"*.mlp.*=topk:k=128\"";
  key.get = [](const Config& c) -> Value {
    std::vector<std::string> list;
    for (const intra::TensorCodec& tensor : c.codec.tensors)
      list.push_back(tensor.pattern + "=" + tensor.spec);
    return list;
  };
  key.set = [allowed = key.allowed](Config& c, const Value& value) {
    std::vector<intra::TensorCodec> tensors;
    for (const std::string& text : texts_of(value, allowed)) {
      const std::size_t equals = text.find('=');
      if (equals == 0 || equals == std::string::npos)
        throw std::invalid_argument("must be a list of texts: " + allowed);
      tensors.push_back({text.substr(0, equals), text.substr(equals + 1)});
    }
    c.codec.tensors = std::move(tensors);
  };
  return key;
}

Key<Config> step_up_key() {
  auto key = C::make("codec.step_up", "list of texts",
                     "Larger codecs for a tensor whose error exceeds error_max, tried in this "
                     "order. The last may be dense:fp32, which loses nothing.");
  key.allowed = "codecs, such as [\"topk:k=256\", \"dense:int8\"]";
  key.get = [](const Config& c) -> Value { return c.codec.step_up; };
  key.set = [allowed = key.allowed](Config& c, const Value& value) {
    c.codec.step_up = texts_of(value, allowed);
  };
  return key;
}

void add_outer_keys(std::vector<Key<Config>>& keys) {
  using Kind = diloco::OuterOptions::Kind;
  keys.push_back(of_run(C::choice<std::optional<Kind>>(
      "outer.optimizer", [](auto& c) -> auto& { return c.outer_kind; },
      {{"auto", std::nullopt},
       {"nesterov", Kind::nesterov},
       {"sgd", Kind::sgd},
       {"delayed_nesterov", Kind::delayed_nesterov}},
      "How the averaged pseudo-gradient moves the shared weights. auto: chosen together with lr, "
      "momentum and mean, by the codec, the inner optimizer, and the number of regions and rounds "
      "(docs/learning.md); nesterov if this key is left out and lr or momentum is set. Use "
      "nesterov with a dense codec, sgd with a sparse one, and delayed_nesterov if rounds list few "
      "of the regions (docs/late-regions.md).")));
  keys.push_back(of_run(C::number(
      "outer.lr", [](auto& c) -> auto& { return c.outer.lr; }, {0, 100, true},
      "Outer learning rate.")));
  keys.push_back(of_run(C::number(
      "outer.momentum", [](auto& c) -> auto& { return c.outer.momentum; }, {0, 1, false, true},
      "Outer momentum; unused by sgd.")));
  keys.push_back(of_run(C::integer(
      "outer.delay", "rounds", [](auto& c) -> auto& { return c.outer.delay; }, 1, 1024,
      "Rounds that delayed_nesterov sums up for one step of its momentum; each round alone moves "
      "the shared weights by its part. About the number of regions.")));
}

void add_outer_mean(std::vector<Key<Config>>& keys) {
  using Mean = diloco::OuterOptions::Mean;
  keys.push_back(of_run(C::choice<Mean>(
      "outer.mean", [](auto& c) -> auto& { return c.outer.mean; },
      {{"all", Mean::all}, {"senders", Mean::senders}},
      "Over which contributions each element of the pseudo-gradient is averaged. all: all that the "
      "round lists; an element that a sparse codec leaves out counts as zero. senders: those that "
      "hold the element (docs/rounds.md, \"Weights\"); the same with dense codecs. Set it only "
      "together with outer.optimizer; if that is auto, it is chosen.")));
}

void add_codec_keys(std::vector<Key<Config>>& keys) {
  const std::string specs =
      "a codec (docs/payload.md lists them), such as dense:fp32, dense:int8,block=128 or "
      "topk:k=64,value=2bit,index=rice";
  keys.push_back(of_run(C::text(
      "codec.matrix", [](auto& c) -> auto& { return c.codec.matrix; }, specs,
      "How pseudo-gradients of matrices are compressed.")));
  keys.push_back(of_run(C::text(
      "codec.vector", [](auto& c) -> auto& { return c.codec.vector; }, specs,
      "How pseudo-gradients of vectors (norms, biases) are compressed.")));
  keys.push_back(of_run(tensor_codecs_key()));
  keys.push_back(of_run(C::number(
      "codec.error_max", [](auto& c) -> auto& { return c.codec.error_max; }, {0, 1},
      "Largest relative squared error of a tensor, ||p - Q(p)||^2 / ||p||^2. A tensor beyond it is "
      "sent with the next codec of step_up that stays within it, and the log says so; "
      "compression.jsonl in the region's directory has every tensor's error. 0: no bound.")));
  keys.push_back(of_run(step_up_key()));
  keys.push_back(of_run(C::boolean(
      "codec.feedback", [](auto& c) -> auto& { return c.codec.feedback; },
      "Keep what compression dropped and add it to the next round. Sparse codecs need it.")));
  keys.push_back(of_run(C::boolean(
      "codec.force", [](auto& c) -> auto& { return c.codec.force; },
      "Allow a sparse codec without feedback: what it drops is lost and training is visibly worse. "
      "For experiments.")));
  keys.push_back(of_run(C::number(
      "codec.feedback_decay", [](auto& c) -> auto& { return c.codec.feedback_decay; }, {0, 1},
      "Factor on what feedback kept from the round before.")));
}

void add_place_keys(std::vector<Key<Config>>& keys) {
  keys.push_back(of_process(defaults_to(
      "none", C::text(
                  "wan.profile", [](auto& c) -> auto& { return c.wan; }, "a file, or empty",
                  "Scenario of the simulated WAN, used by `causeway simulate`."))));
  keys.push_back(of_process(C::text(
      "certificates.directory", [](auto& c) -> auto& { return c.certificates; }, "a directory",
      "Certificates made by `causeway certs`, for runs started by hand.")));
}

template <typename Owner, typename Access>
Key<Owner> endpoint_key(std::string name, Access access, std::string meaning,
                        bool may_be_empty = false) {
  return Keys<Owner>::text_as(
      std::move(name),
      [access](const Owner& r) {
        return access(r).host.empty() ? std::string() : inter::to_string(access(r));
      },
      [access, may_be_empty](Owner& r, const std::string& text) {
        try {
          access(r) =
              may_be_empty && text.empty() ? inter::Endpoint{} : inter::parse_endpoint(text);
        } catch (const std::system_error& error) {
          throw std::invalid_argument(error.what());
        }
      },
      may_be_empty ? "HOST:PORT, or empty" : "HOST:PORT", std::move(meaning));
}

void add_witness_keys(std::vector<Key<Config>>& keys) {
  keys.push_back(defaults_to(
      "none",
      of_run(C::text_as(
          "witness.name", [](const Config& c) { return c.witness.name; },
          [](Config& c, const std::string& text) {
            c.witness.name.clear();
            if (!text.empty()) name_writer(is_region_letter, "[a-z0-9-]")(c.witness, text);
          },
          "1 to 63 of [a-z0-9-], or empty",
          "A process that votes without training (`causeway witness`), so that a run of two "
          "regions goes on when one is lost."))));
  keys.push_back(of_process(defaults_to(
      "127.0.0.1:0", endpoint_key<Config>(
                         "witness.listen", [](auto& c) -> auto& { return c.witness.listen; },
                         "Address it binds."))));
  keys.push_back(of_process(defaults_to(
      "listen", endpoint_key<Config>(
                    "witness.advertise", [](auto& c) -> auto& { return c.witness.advertise; },
                    "Address that regions dial."))));
}

Key<RegionConfig> device_key() {
  using intra::Device;
  return R::choice<Device>(
      "regions.device", [](auto& r) -> auto& { return r.device; },
      {{"cpu", Device::cpu}, {"cuda", Device::cuda}},
      "What the region's workers compute on. cuda: one GPU each.");
}

}  // namespace

Config default_config() {
  Config config;
  config.name = "run";
  config.model.kv_heads = 0;
  config.model.hidden = 0;
  config.outer.delay = 4;
  config.certificates = "certificates";
  return config;
}

const std::vector<Key<Config>>& config_keys() {
  static const std::vector<Key<Config>> keys = [] {
    std::vector<Key<Config>> all;
    add_run_keys(all);
    add_model_keys(all);
    add_data_keys(all);
    add_inner_keys(all);
    add_outer_keys(all);
    add_outer_mean(all);
    add_codec_keys(all);
    add_train_keys(all);
    add_sync_keys(all);
    add_ledger_keys(all);
    add_link_keys(all);
    add_budget_keys(all);
    add_place_keys(all);
    add_witness_keys(all);
    return all;
  }();
  return keys;
}

const std::vector<Key<RegionConfig>>& region_keys() {
  static const std::vector<Key<RegionConfig>> keys = [] {
    std::vector<Key<RegionConfig>> all;
    all.push_back(of_run(required(R::text_as(
        "regions.name", [](const RegionConfig& r) { return r.name; },
        name_writer(is_region_letter, "[a-z0-9-]"), "1 to 63 of [a-z0-9-]",
        "The region's name, bound to its certificate."))));
    all.push_back(of_process(defaults_to(
        "127.0.0.1:0", endpoint_key<RegionConfig>(
                           "regions.listen", [](auto& r) -> auto& { return r.listen; },
                           "Address its coordinator binds; port 0 takes any free one."))));
    all.push_back(of_process(defaults_to(
        "listen",
        endpoint_key<RegionConfig>(
            "regions.advertise", [](auto& r) -> auto& { return r.advertise; },
            "Address that other regions dial. Empty: none can dial it; it dials them.", true))));
    all.push_back(of_region(R::integer(
        "regions.workers", "processes", [](auto& r) -> auto& { return r.workers; }, 1, 4096,
        "Worker processes that share the region's batch.")));
    all.push_back(of_built_in_trainer(of_region(device_key())));
    all.push_back(of_process(overlap_key()));
    all.push_back(of_process(region_data_key()));
    return all;
  }();
  return keys;
}

}  // namespace causeway::run
