#include "compression/codecs/payload_sum.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "compression/base/chunk.h"
#include "compression/base/codec.h"
#include "compression/codecs/make_codec.h"
#include "compression/codecs/payload.h"

namespace causeway::compression {
namespace {

constexpr const char* kSumSpec = "dense:int8,block=128";

// Index and element count of each segment.
using Shape = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

struct Term {
  std::size_t place = 0;
  float weight = 0;
  std::string_view sender;
  Payload payload;
  std::vector<std::unique_ptr<Codec>> codecs;

  Shape shape() const {
    Shape shape;
    for (const EncodedSegment& one : payload.segments)
      shape.emplace_back(one.index, one.element_count);
    return shape;
  }
  const Codec& codec_of(std::size_t segment) const {
    return *codecs[payload.segments[segment].codec];
  }
};

std::optional<Term> read_term(const PayloadTerm& term, std::size_t place) {
  try {
    Term read{.place = place,
              .weight = term.weight,
              .sender = term.sender,
              .payload = read_payload(term.payload),
              .codecs = {}};
    for (const std::string& spec : read.payload.codec_specs)
      read.codecs.push_back(make_codec(spec));
    const bool has_codecs = std::ranges::all_of(read.payload.segments, [&](const auto& segment) {
      return segment.codec < read.codecs.size();
    });
    return has_codecs && !read.payload.segments.empty() ? std::optional(std::move(read))
                                                        : std::nullopt;
  } catch (const std::system_error&) {
    return std::nullopt;
  }
}

// Those of the shape that most have; of two as frequent, the one that comes first.
std::vector<Term> read_terms(std::span<const PayloadTerm> terms) {
  std::vector<Term> all;
  std::map<Shape, std::size_t> shapes;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (auto term = read_term(terms[i], i)) all.push_back(std::move(*term));
  }
  for (const Term& term : all) ++shapes[term.shape()];
  const Term* most = nullptr;
  for (const Term& term : all)
    if (most == nullptr || shapes[term.shape()] > shapes[most->shape()]) most = &term;
  if (most == nullptr) return all;
  const Shape shape = most->shape();
  std::erase_if(all, [&shape](const Term& term) { return term.shape() != shape; });
  return all;
}

// Numbers that cross as they are, or nearly.
bool is_float(const std::string& spec) {
  return spec == "dense:fp32" || spec == "dense:fp16" || spec == "dense:bf16";
}

struct Damaged {
  std::size_t place = 0;
};

// Of segment number `i` of each.
void add_up(const std::vector<Term>& terms, std::size_t i, bool lowest, std::vector<float>& sum) {
  std::ranges::fill(sum, 0.0F);
  for (const Term& term : terms) {
    try {
      term.codec_of(i).decode_add(term.payload.segments[i].bytes, lowest ? 1 : term.weight, sum);
    } catch (const std::system_error&) {
      throw Damaged{term.place};
    }
    if (lowest) return;
  }
  // Finite weights of finite numbers can add up to none. Nothing is better than that.
  if (!std::ranges::all_of(sum, [](float x) { return is_finite(x); })) std::ranges::fill(sum, 0.0F);
}

// Of two as frequent, the one that comes first.
std::string most_frequent_spec(const std::vector<Term>& terms, std::size_t segment) {
  std::map<std::string, std::size_t> counts;
  for (const Term& term : terms) ++counts[term.codec_of(segment).spec()];
  std::string most;
  for (const Term& term : terms) {
    const std::string spec = term.codec_of(segment).spec();
    if (most.empty() || counts[spec] > counts[most]) most = spec;
  }
  return most;
}

std::vector<std::byte> encode_sum(const std::vector<Term>& terms, std::uint32_t lowest_from) {
  std::vector<std::string> specs{kSumSpec};
  std::vector<std::unique_ptr<Codec>> codecs;
  codecs.push_back(make_codec(kSumSpec));
  std::vector<EncodedSegment> segments;
  std::vector<std::size_t> begins;
  std::vector<std::byte> bytes;
  std::vector<float> sum, decoded;
  const Term& first = terms.front();
  for (std::size_t i = 0; i < first.payload.segments.size(); ++i) {
    EncodedSegment segment = first.payload.segments[i];
    sum.resize(segment.element_count);
    decoded.resize(segment.element_count);
    add_up(terms, i, segment.index >= lowest_from, sum);
    const std::string spec = most_frequent_spec(terms, i);
    segment.codec = 0;
    if (is_float(spec)) {
      const auto known = std::ranges::find(specs, spec);
      segment.codec = static_cast<std::uint8_t>(known - specs.begin());
      if (known == specs.end()) {
        specs.push_back(spec);
        codecs.push_back(make_codec(spec));
      }
    }
    begins.push_back(bytes.size());
    codecs[segment.codec]->encode(sum, decoded, bytes);
    segments.push_back(segment);
  }
  begins.push_back(bytes.size());
  for (std::size_t i = 0; i < segments.size(); ++i)
    segments[i].bytes = std::span(bytes).subspan(begins[i], begins[i + 1] - begins[i]);
  return write_payload(specs, segments);
}

// Takes out those that turn out to be damaged.
std::vector<std::byte> sum_of_decodable(std::vector<Term>& terms, std::uint32_t lowest_from) {
  while (!terms.empty()) {
    try {
      return encode_sum(terms, lowest_from);
    } catch (const Damaged& damaged) {
      std::erase_if(terms, [&](const Term& term) { return term.place == damaged.place; });
    }
  }
  return write_payload({}, {});
}

// Of segments whose index is at least `from` and below `to`.
std::vector<Outlier> outliers_of(const std::vector<Term>& terms, std::uint32_t from,
                                 std::uint32_t to) {
  std::vector<SentNorm> sent;
  for (const Term& term : terms) {
    sent.push_back({term.place, term.sender, term.weight, 0});
    for (std::size_t i = 0; i < term.payload.segments.size(); ++i) {
      const EncodedSegment& segment = term.payload.segments[i];
      if (segment.index < from || segment.index >= to) continue;
      sent.back().norm_squared +=
          term.codec_of(i).norm_squared_bound(segment.bytes, segment.element_count);
    }
  }
  return outliers(sent, kPartLimit);
}

// For their steps or for their averaged statistics.
std::vector<Outlier> outliers_of(const std::vector<Term>& terms,
                                 const StatisticSegments& statistics) {
  std::vector<Outlier> found =
      outliers_of(terms, 0, std::min(statistics.averaged, statistics.lowest));
  std::ranges::copy(outliers_of(terms, statistics.averaged, statistics.lowest),
                    std::back_inserter(found));
  return found;
}

}  // namespace

std::vector<std::vector<std::byte>> cut_payload(std::span<const std::byte> payload,
                                                std::size_t shards_max,
                                                std::uint64_t elements_min) {
  const Payload whole = read_payload(payload);
  const std::span<const EncodedSegment> segments = whole.segments;
  std::uint64_t elements = 0, before = 0;
  for (const EncodedSegment& segment : segments) elements += segment.element_count;
  const std::size_t shards = std::min<std::uint64_t>(
      {shards_max, segments.size(), std::max<std::uint64_t>(1, elements / elements_min)});
  std::vector<std::vector<std::byte>> cut;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < shards; ++i) {
    const std::size_t last_end = segments.size() - (shards - 1 - i);
    std::size_t end = begin;
    do before += segments[end++].element_count;
    while (end < last_end && before * shards < elements * (i + 1));
    if (i + 1 == shards) end = segments.size();
    cut.push_back(write_payload(whole.codec_specs, segments.subspan(begin, end - begin)));
    begin = end;
  }
  return cut;
}

PayloadSum sum_payloads(std::span<const PayloadTerm> terms, const StatisticSegments& statistics) {
  std::vector<Term> good = read_terms(terms);
  PayloadSum sum;
  sum.payload = sum_of_decodable(good, statistics.lowest);
  for (std::size_t i = 0; i < terms.size(); ++i)
    if (std::ranges::find(good, i, &Term::place) == good.end()) sum.left_out.push_back(i);
  sum.outliers = outliers_of(good, statistics);
  if (!sum.outliers.empty()) {
    std::erase_if(good, [&](const Term& term) {
      return std::ranges::find(sum.outliers, term.place, &Outlier::place) != sum.outliers.end();
    });
    sum.payload = sum_of_decodable(good, statistics.lowest);
  }
  return sum;
}

}  // namespace causeway::compression
