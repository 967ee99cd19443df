#include "intra/published/tokenizer_file.h"

#include <array>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "diloco/files/file_io.h"
#include "intra/base/error.h"
#include "intra/base/foreign_json.h"

namespace causeway::intra {
namespace {

using nlohmann::json;

constexpr std::int64_t kTokenMost = (1 << 24) - 1;  // a model's vocabulary is at most 2^24

// What ByteLevel splits by, unless told otherwise (Radford et al., 2019).
constexpr const char* kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

[[noreturn]] void refuse_tokenizer(const std::string& why) {
  throw std::invalid_argument(why);
}

// Missing and null mean the same.
const json& entry(const json& object, const char* key) {
  static const json nothing;
  if (!object.is_object()) return nothing;
  const auto found = object.find(key);
  return found == object.end() ? nothing : *found;
}
std::string text(const json& object, const char* key) {
  const json& value = entry(object, key);
  return value.is_string() ? value.get<std::string>() : "";
}
bool flag(const json& object, const char* key, bool otherwise) {
  const json& value = entry(object, key);
  return value.is_boolean() ? value.get<bool>() : otherwise;
}
const json& list(const json& object, const char* key) {
  const json& value = entry(object, key);
  if (!value.is_array()) refuse_tokenizer(std::string("has no list of ") + key);
  return value;
}
std::int32_t token_of(const json& value, const std::string& name) {
  if (!value.is_number_integer() || value < 0 || value > kTokenMost)
    refuse_tokenizer("gives '" + name + "' the impossible token " + value.dump());
  return value.get<std::int32_t>();
}

// ---- The alphabet: one printable character for each byte ----

// Bytes that are printable in Latin-1 are themselves, the others follow from U+0100 in order.
constexpr bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

std::string utf8(unsigned character) {  // below U+0800
  if (character < 0x80) return {static_cast<char>(character)};
  return {static_cast<char>(0xC0 | character >> 6), static_cast<char>(0x80 | (character & 0x3F))};
}

class Alphabet {
 public:
  Alphabet() {
    unsigned next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      letters_[static_cast<std::size_t>(byte)] =
          utf8(stands_for_itself(byte) ? static_cast<unsigned>(byte) : next++);
      bytes_[letters_[static_cast<std::size_t>(byte)]] = static_cast<char>(byte);
    }
  }
  const std::string& letter(std::size_t byte) const { return letters_[byte]; }

  // Nothing if it is not written in this alphabet.
  std::optional<std::string> decode(const std::string& token) const {
    std::string bytes;
    for (std::size_t i = 0; i < token.size();) {
      const std::size_t length = (token[i] & 0x80) == 0 ? 1 : 2;
      const auto found = bytes_.find(token.substr(i, length));
      if (found == bytes_.end()) return std::nullopt;
      bytes += found->second;
      i += length;
    }
    return bytes;
  }

 private:
  std::array<std::string, 256> letters_;
  std::unordered_map<std::string, char> bytes_;
};

// ---- model ----

using Vocabulary = std::unordered_map<std::string, std::int32_t>;

void check_model(const json& model) {
  const std::string type = text(model, "type");
  if (!model.is_object() || (type != "BPE" && !type.empty()))
    refuse_tokenizer("has a model of type '" + type + "'; byte-level BPE can be read");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!text(model, key).empty())
      refuse_tokenizer(std::string("has a ") + key + ", which is not built in");
  }
  if (flag(model, "byte_fallback", false))
    refuse_tokenizer("is SentencePiece's kind of BPE (byte_fallback); byte-level BPE can be read");
  const json& dropout = entry(model, "dropout");
  if (dropout.is_number() && dropout != 0) refuse_tokenizer("has a dropout of merges");
}

Vocabulary read_vocabulary(const json& model) {
  const json& entries = entry(model, "vocab");
  if (!entries.is_object() || entries.empty()) refuse_tokenizer("has no vocabulary");
  Vocabulary vocabulary;
  for (const auto& [name, token] : entries.items()) vocabulary[name] = token_of(token, name);
  return vocabulary;
}

// "left right" in older files, ["left", "right"] in newer ones.
std::pair<std::string, std::string> merge_of(const json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0], merge[1]};
  const std::string pair = merge.is_string() ? merge.get<std::string>() : "";
  const std::size_t space = pair.find(' ');
  if (space == std::string::npos || pair.find(' ', space + 1) != std::string::npos)
    refuse_tokenizer("has a merge that is not of two tokens: " + merge.dump());
  return {pair.substr(0, space), pair.substr(space + 1)};
}

std::vector<BytePairs::Merge> read_merges(const json& model, const Vocabulary& vocabulary) {
  const auto find = [&](const std::string& name) {
    const auto found = vocabulary.find(name);
    if (found == vocabulary.end())
      refuse_tokenizer("has merges of '" + name + "', which is no token");
    return found->second;
  };
  std::vector<BytePairs::Merge> merges;
  for (const json& merge : list(model, "merges")) {
    const auto [left, right] = merge_of(merge);
    merges.push_back({find(left), find(right), find(left + right)});
  }
  return merges;
}

void read_model(const json& model, TokenizerFile& file) {
  check_model(model);
  const Vocabulary vocabulary = read_vocabulary(model);
  const Alphabet alphabet;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const auto found = vocabulary.find(alphabet.letter(byte));
    file.byte_tokens[byte] = found == vocabulary.end() ? BytePairs::kNoToken : found->second;
  }
  for (const auto& [name, token] : vocabulary) {
    if (!file.bytes.emplace(token, alphabet.decode(name).value_or(name)).second)
      refuse_tokenizer(fmt::format("gives token {} to two texts", token));
  }
  file.merges = read_merges(model, vocabulary);
  file.whole_words = flag(model, "ignore_merges", false);
}

// ---- Everything else ----

void read_added_tokens(const json& json_file, TokenizerFile& file) {
  const json& tokens = entry(json_file, "added_tokens");
  if (tokens.is_null()) return;
  for (const json& added : list(json_file, "added_tokens")) {
    AddedToken token{text(added, "content"), 0, flag(added, "normalized", false)};
    token.token = token_of(entry(added, "id"), token.content);
    for (const char* key : {"single_word", "lstrip", "rstrip"}) {
      if (flag(added, key, false))
        refuse_tokenizer("has the added token '" + token.content + "' with " + key +
                         ", which is not built in");
    }
    if (!token.content.empty()) file.added.push_back(std::move(token));
  }
}

bool is_empty(const json& step, const char* steps) {
  return step.is_null() || (entry(step, steps).is_array() && entry(step, steps).empty());
}

class PreTokenizers {
 public:
  explicit PreTokenizers(TokenizerFile& file) : file_(file) {}

  // At any depth of sequences, of which files have one or two.
  void add(const json& step, int depth = 0) {
    const std::string type = text(step, "type");
    if (bytes_) refuse_tokenizer("has the pre-tokenizer '" + type + "' after ByteLevel");
    if (type == "Sequence" && depth < 8) {
      for (const json& inner : list(step, "pretokenizers")) add(inner, depth + 1);
    } else if (type == "Split") {
      add_split(step);
    } else if (type == "Digits") {
      file_.splits.emplace_back(flag(step, "individual_digits", false) ? "\\p{N}" : "\\p{N}+");
    } else if (type == "ByteLevel") {
      add_byte_level(step);
    } else {
      refuse_tokenizer("has the pre-tokenizer '" + type +
                       "'; ByteLevel, Split and Digits can be read");
    }
  }
  bool ends_in_bytes() const { return bytes_; }

 private:
  void add_split(const json& step) {
    const std::string behavior = text(step, "behavior");
    if (behavior != "Isolated")
      refuse_tokenizer("splits words as '" + behavior + "'; Isolated can be read");
    const json& pattern = entry(step, "pattern");
    if (entry(pattern, "String").is_string()) {
      file_.splits.emplace_back(text(pattern, "String"), UnicodeRegex::Syntax::literal);
    } else {
      file_.splits.emplace_back(text(pattern, "Regex"));
    }
  }
  void add_byte_level(const json& step) {
    bytes_ = true;
    file_.add_prefix_space = flag(step, "add_prefix_space", true);
    if (file_.add_prefix_space && !file_.splits.empty())
      refuse_tokenizer("adds a space before every word that another pre-tokenizer made");
    if (flag(step, "use_regex", true)) file_.splits.emplace_back(kGpt2Words);
  }

  TokenizerFile& file_;
  bool bytes_ = false;
};

void read_template(const json& processor, TokenizerFile& file) {
  bool text_seen = false;
  for (const json& part : list(processor, "single")) {
    const json& special = entry(part, "SpecialToken");
    if (special.is_null()) {
      text_seen = true;
      continue;
    }
    const std::string name = text(special, "id");
    for (const json& id : list(entry(entry(processor, "special_tokens"), name.c_str()), "ids"))
      (text_seen ? file.after : file.before).push_back(token_of(id, name));
  }
}

void read_post_processor(const json& processor, TokenizerFile& file, int depth = 0) {
  const std::string type = text(processor, "type");
  if (processor.is_null() || type == "ByteLevel") return;  // which changes offsets only
  if (type == "TemplateProcessing") return read_template(processor, file);
  if (type != "Sequence" || depth == 8)
    refuse_tokenizer("has the post-processor '" + type +
                     "'; TemplateProcessing and ByteLevel can be read");
  for (const json& inner : list(processor, "processors")) {
    read_post_processor(inner, file, depth + 1);
  }
}

TokenizerFile read(const json& json_file) {
  if (!json_file.is_object()) refuse_tokenizer("is not a JSON object");
  const json& normalizer = entry(json_file, "normalizer");
  if (!is_empty(normalizer, "normalizers"))
    refuse_tokenizer("has the normalizer '" + text(normalizer, "type") +
                     "', which is not built in");
  const std::string decoder = text(entry(json_file, "decoder"), "type");
  if (!decoder.empty() && decoder != "ByteLevel")
    refuse_tokenizer("has the decoder '" + decoder + "'; ByteLevel can be read");
  TokenizerFile file;
  PreTokenizers pre_tokenizers(file);
  pre_tokenizers.add(entry(json_file, "pre_tokenizer"));
  if (!pre_tokenizers.ends_in_bytes()) refuse_tokenizer("is not byte-level: it has no ByteLevel");
  read_model(entry(json_file, "model"), file);
  read_added_tokens(json_file, file);
  read_post_processor(entry(json_file, "post_processor"), file);
  return file;
}

}  // namespace

TokenizerFile read_tokenizer_file(const std::filesystem::path& file) {
  const std::optional<std::string> content = diloco::read_file(file);
  const auto fail = [&](const std::string& why) {
    throw std::system_error(Errc::bad_data, file.string() + " " + why);
  };
  if (!content) fail("is missing");
  try {
    return read(parse_foreign(*content));
  } catch (const std::invalid_argument& error) {
    fail(error.what());
  }
  return {};
}

}  // namespace causeway::intra
