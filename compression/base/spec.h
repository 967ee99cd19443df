// The grammar of codec specs: family[:variant][,key=value]... with the variant first and without
// "=".
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace causeway::compression {

// The names in a table, for messages: "a, b, c".
template <typename Table>
std::string names_in(const Table& table) {
  std::string names;
  for (const auto& entry : table) {
    names += names.empty() ? "" : ", ";
    names += entry.name;
  }
  return names;
}

// A spec taken apart. The codec's factory takes the settings it knows; what is left then is
// refused. All members throw Errc::bad_spec with the spec, the part that is wrong, and what is
// allowed.
class Spec {
 public:
  explicit Spec(std::string_view text);

  const std::string& family() const { return family_; }
  const std::string& variant() const { return variant_; }

  std::size_t take_number(const std::string& key, std::size_t otherwise,
                          const std::function<bool(std::size_t)>& allowed,
                          const std::string& allowed_in_words);
  // k, the elements kept of each chunk: from 1 to kChunk.
  std::size_t take_kept();
  // The values that share a scale: a power of two from 1 to kChunk.
  std::size_t take_block(std::size_t otherwise);
  // rounding=nearest or rounding=stochastic: true for the latter. nearest is the default.
  bool take_stochastic();
  // A number, and its shortest spelling.
  std::pair<double, std::string> take_real(const std::string& key, double otherwise,
                                           const std::function<bool(double)>& allowed,
                                           const std::string& allowed_in_words);
  std::string take_text(const std::string& key, const std::string& otherwise);
  std::string take_word(const std::string& key, const std::string& otherwise,
                        std::initializer_list<const char*> allowed);
  // Every setting has been taken.
  void finish() const;
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  void add_setting(std::string_view setting, bool first);

  std::string text_, family_, variant_;
  std::map<std::string, std::string> settings_;  // not taken yet
  std::string known_;                            // keys asked for so far, for messages
};

}  // namespace causeway::compression
