// Every sparsifier, value format and index format, in the combinations that differ in code: what
// the conformance tests and the fuzzer run over.
#pragma once

#include <array>
#include <string>

namespace causeway::compression {

inline constexpr std::array kSpecs{
    "dense:fp32",
    "dense:bf16",
    "dense:fp16",
    "dense:int8",
    "dense:int8,block=1",
    "dense:int8,block=4096",
    "dense:int8,rounding=stochastic",
    "dense:int4",
    "dense:int4,block=4096",
    "dense:int4,rounding=stochastic",
    "dense:int4-asymmetric",
    "dense:2bit",
    "dense:1bit",
    "topk:k=1",
    "topk:k=41",
    "topk:k=64",
    "topk:k=4096",
    "topk:k=63,value=fp32,index=raw",
    "topk:k=63,value=bf16,index=bitmap",
    "topk:k=63,value=fp16,index=packed-12",
    "topk:k=41,value=int8,index=rice",
    "topk:k=1,value=int4,index=rice",
    "topk:k=4096,value=int4-asymmetric,index=rice",
    "topk:k=63,value=int4,rounding=stochastic",
    "topk:k=63,value=1bit,block=32",
    "topk:k=64,skip-zeros=yes",
    "topk:k=64,skip-zeros=yes,value=int8,index=elias-fano",
    "threshold:t=2.5",
    "threshold:t=0.001,value=int4,block=32,index=rice",
    "threshold:t=3,value=fp16,index=packed-12",
};

// A name that a parameterised test may have.
inline std::string test_name(const std::string& spec) {
  std::string name;
  for (const char c : spec) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z');
    name += plain ? c : '_';
  }
  return name;
}

}  // namespace causeway::compression
