// JSON that others wrote.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace causeway::intra {

// Goes over JSON before it is parsed, and stops where it nests deeper than `depth_most`. The parser
// would let a callback watch it, at a cost that grows with the square of the number of objects.
class NestingWatch : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit NestingWatch(int depth_most) : depth_most_(depth_most) {}
  bool too_deep() const { return depth_ > depth_most_; }

  bool start_object(std::size_t) override { return ++depth_ <= depth_most_; }
  bool start_array(std::size_t) override { return ++depth_ <= depth_most_; }
  bool end_object() override { return --depth_ >= 0; }
  bool end_array() override { return --depth_ >= 0; }
  bool key(std::string&) override { return true; }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(nlohmann::json::binary_t&) override { return true; }
  // The parser says what is wrong.
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 protected:
  int depth() const { return depth_; }  // objects and arrays that are open

 private:
  int depth_most_, depth_ = 0;
};

// Discarded (Json::is_discarded) if `text` is not JSON, or nests deeper than any file that is read
// here: printing a value, as messages do, takes a stack frame for each level.
template <typename Json = nlohmann::json>
Json parse_foreign(const std::string& text) {
  constexpr int kDepthMost = 32;
  NestingWatch watch(kDepthMost);
  nlohmann::json::sax_parse(text, &watch);
  if (watch.too_deep()) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, false);
}

}  // namespace causeway::intra
