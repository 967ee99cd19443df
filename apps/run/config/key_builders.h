// How rows of the key table are built: one function per type of value. Used by the
// config_schema*.cc alone.
//
// A field is named by `access`, a generic function from its owner, const or not, to a reference to
// it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "apps/run/config/config_schema.h"

namespace causeway::run {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// 0.6F becomes 0.6, not 0.60000002384: what was written is what is shown.
double widen(double value);
double widen(float value);
std::string format_number(double value);  // shortest text that reads back as the same value

// A list of texts, or one text alone. Throws std::invalid_argument with what is allowed.
std::vector<std::string> texts_of(const Value& value, const std::string& allowed);

struct Range {
  double minimum = 0;
  double maximum = kInfinity;
  bool open_minimum = false;  // greater than, not equal
  bool open_maximum = false;  // less than, not equal

  bool holds(double value) const {
    return std::isfinite(value) && (open_minimum ? value > minimum : value >= minimum) &&
           (open_maximum ? value < maximum : value <= maximum);
  }
  std::string text() const {
    const std::string low =
        open_minimum ? "above " + format_number(minimum) : format_number(minimum);
    if (maximum == kInfinity) return open_minimum ? low : low + " or more";
    return low + (open_maximum ? " to below " : " to ") + format_number(maximum);
  }
};

template <typename Owner>
struct Keys {
  using K = Key<Owner>;

  template <typename Access>
  static K integer(std::string name, std::string unit, Access access, std::int64_t minimum,
                   std::int64_t maximum, std::string meaning) {
    using Field = std::remove_reference_t<decltype(access(std::declval<Owner&>()))>;
    K key = make(std::move(name), "integer", std::move(meaning));
    key.unit = std::move(unit);
    key.allowed = std::to_string(minimum) + (maximum == std::numeric_limits<std::int64_t>::max()
                                                 ? " or more"
                                                 : " to " + std::to_string(maximum));
    key.get = [access](const Owner& owner) -> Value { return std::int64_t(access(owner)); };
    key.set = [access, minimum, maximum, allowed = key.allowed](Owner& owner, const Value& value) {
      const auto* number = std::get_if<std::int64_t>(&value);
      if (!number || *number < minimum || *number > maximum) {
        throw std::invalid_argument("must be an integer, " + allowed);
      }
      access(owner) = static_cast<Field>(*number);
    };
    return key;
  }

  // A number whose field is kept in another unit: `read` and `write` convert.
  template <typename Read, typename Write>
  static K number_as(std::string name, std::string unit, Read read, Write write, Range range,
                     std::string meaning) {
    K key = make(std::move(name), "number", std::move(meaning));
    key.unit = std::move(unit);
    key.allowed = range.text();
    key.get = [read](const Owner& owner) -> Value { return read(owner); };
    key.set = [write, range](Owner& owner, const Value& value) {
      double number = std::numeric_limits<double>::quiet_NaN();
      if (const auto* whole = std::get_if<std::int64_t>(&value)) number = double(*whole);
      if (const auto* real = std::get_if<double>(&value)) number = *real;
      if (!range.holds(number)) throw std::invalid_argument("must be a number, " + range.text());
      write(owner, number);
    };
    return key;
  }

  template <typename Access>
  static K number(std::string name, Access access, Range range, std::string meaning) {
    using Field = std::remove_reference_t<decltype(access(std::declval<Owner&>()))>;
    return number_as(
        std::move(name), "", [access](const Owner& owner) { return widen(access(owner)); },
        [access, range](Owner& owner, double value) {
          const auto rounded = static_cast<Field>(value);  // to float, this may leave the range
          if (!range.holds(widen(rounded))) {
            throw std::invalid_argument("must be a number, " + range.text());
          }
          access(owner) = rounded;
        },
        range, std::move(meaning));
  }

  template <typename Access>
  static K boolean(std::string name, Access access, std::string meaning) {
    K key = make(std::move(name), "true or false", std::move(meaning));
    key.allowed = "true or false";
    key.get = [access](const Owner& owner) -> Value { return access(owner); };
    key.set = [access](Owner& owner, const Value& value) {
      const auto* flag = std::get_if<bool>(&value);
      if (!flag) throw std::invalid_argument("must be true or false");
      access(owner) = *flag;
    };
    return key;
  }

  // Text converted by `read` and `write`; `write` throws std::invalid_argument if it is not
  // allowed.
  template <typename Read, typename Write>
  static K text_as(std::string name, Read read, Write write, std::string allowed,
                   std::string meaning) {
    K key = make(std::move(name), "text", std::move(meaning));
    key.allowed = std::move(allowed);
    key.get = [read](const Owner& owner) -> Value { return std::string(read(owner)); };
    key.set = [write, allowed = key.allowed](Owner& owner, const Value& value) {
      const auto* text = std::get_if<std::string>(&value);
      if (!text) throw std::invalid_argument("must be a text in quotes: " + allowed);
      if (text->find('\0') != std::string::npos) {
        throw std::invalid_argument("must not contain a zero byte");
      }
      write(owner, *text);
    };
    return key;
  }

  template <typename Access>
  static K text(std::string name, Access access, std::string allowed, std::string meaning) {
    return text_as(
        std::move(name), [access](const Owner& owner) { return access(owner); },
        [access](Owner& owner, const std::string& text) { access(owner) = text; },
        std::move(allowed), std::move(meaning));
  }

  template <typename Access>
  static K directory(std::string name, Access access, std::string meaning) {
    return text_as(
        std::move(name), [access](const Owner& owner) { return access(owner).string(); },
        [access](Owner& owner, const std::string& text) { access(owner) = text; },
        "a directory, or empty", std::move(meaning));
  }

  template <typename Enum, typename Access>
  static K choice(std::string name, Access access,
                  std::vector<std::pair<std::string, Enum>> choices, std::string meaning) {
    std::string allowed = choices.front().first;
    for (std::size_t i = 1; i < choices.size(); ++i) {
      allowed += (i + 1 == choices.size() ? " or " : ", ") + choices[i].first;
    }
    const auto read = [access, choices](const Owner& owner) {
      for (const auto& [label, value] : choices) {
        if (value == access(owner)) return label;
      }
      return std::string();
    };
    const auto write = [access, choices, allowed](Owner& owner, const std::string& text) {
      for (const auto& [label, value] : choices) {
        if (label != text) continue;
        access(owner) = value;
        return;
      }
      throw std::invalid_argument("must be " + allowed);
    };
    return text_as(std::move(name), read, write, allowed, std::move(meaning));
  }

  static K make(std::string name, std::string type, std::string meaning) {
    K key;
    key.name = std::move(name);
    key.type = std::move(type);
    key.meaning = std::move(meaning);
    key.built_in_only = key.name.starts_with("model.") || key.name.starts_with("data.") ||
                        key.name.starts_with("inner.");
    return key;
  }
};

// Who must have the same value: see SharedBy.
template <typename K>
K of_run(K key) {
  key.shared_by = SharedBy::run;
  return key;
}
template <typename K>
K of_region(K key) {
  key.shared_by = SharedBy::region;
  return key;
}
template <typename K>
K of_process(K key) {
  key.shared_by = SharedBy::process;
  return key;
}
template <typename K>
K of_any_trainer(K key) {
  key.built_in_only = false;
  return key;
}
template <typename K>
K of_built_in_trainer(K key) {
  key.built_in_only = true;
  return key;
}
template <typename K>
K required(K key) {
  key.required = true;
  return key;
}
template <typename K>
K defaults_to(std::string note, K key) {
  key.default_note = std::move(note);
  return key;
}

inline constexpr std::int64_t kAnyInteger = std::numeric_limits<std::int64_t>::max();

// Seconds in the file, with three decimals; any duration in the field.
template <typename Access>
Key<Config> seconds_key(std::string name, Access access, std::string meaning, double least = 0,
                        double most = 1e7) {
  using std::chrono::milliseconds;
  return Keys<Config>::number_as(
      std::move(name), "s",
      [access](const Config& c) {
        return double(std::chrono::duration_cast<milliseconds>(access(c)).count()) / 1000.0;
      },
      [access](Config& c, double s) { access(c) = milliseconds(std::llround(s * 1000.0)); },
      {least, most}, std::move(meaning));
}

}  // namespace causeway::run
