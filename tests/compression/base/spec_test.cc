#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compression/base/codec.h"
#include "compression/codecs/make_codec.h"

namespace causeway::compression {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string complaint(const std::string& spec) {
  try {
    make_codec(spec);
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), Errc::bad_spec);
    return error.what();
  }
  return "accepted";
}

TEST(Spec, PrintsEveryDefault) {
  const auto full = [](const char* spec) { return make_codec(spec)->spec(); };
  EXPECT_EQ(full("dense:fp32"), "dense:fp32");
  EXPECT_EQ(full("dense:int8"), "dense:int8,block=128");
  EXPECT_EQ(full("dense:int4"), "dense:int4,block=64");
  EXPECT_EQ(full("dense:int4,rounding=stochastic"), "dense:int4,block=64,rounding=stochastic");
  EXPECT_EQ(full("dense:int4,rounding=nearest"), "dense:int4,block=64");
  EXPECT_EQ(full("topk"), "topk:k=64,chunk=4096,value=2bit,index=elias-fano");
  EXPECT_EQ(full("topk:index=elias-fano,k=41"), "topk:k=41,chunk=4096,value=2bit,index=elias-fano");
  EXPECT_EQ(full("topk:value=int8,skip-zeros=yes"),
            "topk:k=64,chunk=4096,skip-zeros=yes,value=int8,block=128,index=rice");
  EXPECT_EQ(full("topk:skip-zeros=no"), "topk:k=64,chunk=4096,value=2bit,index=elias-fano");
  EXPECT_EQ(full("threshold:t=2.50"), "threshold:t=2.5,value=2bit,index=rice");
}

TEST(Spec, KnowsWhichCodecsDropCoordinates) {
  for (const char* spec : {"topk", "threshold"}) {
    EXPECT_TRUE(make_codec(spec)->is_sparse()) << spec;
  }
  EXPECT_FALSE(make_codec("dense:int8")->is_sparse());
  EXPECT_FALSE(make_codec("dense:fp32")->is_sparse());
}

TEST(Spec, RefusesNamingThePartAndWhatIsAllowed) {
  EXPECT_THAT(complaint("sparse:k=1"), AllOf(HasSubstr("\"sparse\""), HasSubstr("dense, topk, ")));
  EXPECT_THAT(complaint(""), HasSubstr("allowed: dense, topk"));
  EXPECT_THAT(complaint("dense"), AllOf(HasSubstr("dense:int8"), HasSubstr("fp32, ")));
  EXPECT_THAT(complaint("dense:int7"), AllOf(HasSubstr("\"int7\""), HasSubstr("int8, int4")));
  EXPECT_THAT(complaint("dense:int8,blok=64"),
              AllOf(HasSubstr("\"blok\""), HasSubstr("allowed: block rounding")));
  EXPECT_THAT(complaint("dense:int8,block=96"),
              AllOf(HasSubstr("block=96"), HasSubstr("power of two")));
  EXPECT_THAT(complaint("dense:int8,block=8192"), HasSubstr("block=8192"));
  EXPECT_THAT(complaint("dense:fp32,block=128"), AllOf(HasSubstr("\"block\""), HasSubstr("none")));
  EXPECT_THAT(complaint("dense:int8,index=rice"), HasSubstr("\"index\""));
  EXPECT_THAT(complaint("dense:int8,rounding=up"),
              AllOf(HasSubstr("rounding=up"), HasSubstr("nearest stochastic")));
  EXPECT_THAT(complaint("dense:2bit,rounding=stochastic"), HasSubstr("\"rounding\""));
  EXPECT_THAT(complaint("topk:k=0"), AllOf(HasSubstr("k=0"), HasSubstr("1 to 4096")));
  EXPECT_THAT(complaint("topk:k=4097"), HasSubstr("k=4097"));
  EXPECT_THAT(complaint("topk:k=-1"), HasSubstr("k=-1"));
  EXPECT_THAT(complaint("topk:k=99999999999999999999"), HasSubstr("1 to 4096"));
  EXPECT_THAT(complaint("topk:k=64x"), HasSubstr("k=64x"));
  EXPECT_THAT(complaint("topk:chunk=64"), HasSubstr("4096"));
  EXPECT_THAT(complaint("topk:value=int7"), AllOf(HasSubstr("\"int7\""), HasSubstr("2bit")));
  EXPECT_THAT(complaint("topk:value=2bit,block=64"), HasSubstr("\"block\""));
  EXPECT_THAT(complaint("topk:index=gzip"),
              AllOf(HasSubstr("\"gzip\""), HasSubstr("elias-fano, rice")));
  EXPECT_THAT(complaint("topk:skip-zeros=maybe"), HasSubstr("yes no"));
  EXPECT_THAT(complaint("topk:fast"), HasSubstr("\"fast\""));
  EXPECT_THAT(complaint("topk:k=1,k=2"), HasSubstr("twice"));
  EXPECT_THAT(complaint("topk:k=1,"), HasSubstr("key=value"));
  EXPECT_THAT(complaint("topk:"), HasSubstr("key=value"));
  EXPECT_THAT(complaint("dense:int8,int8"), HasSubstr("key=value"));
  for (const char* t : {"0", "-0.1", "1025", "nan", "inf", "", "x", "0.1x"}) {
    EXPECT_THAT(complaint("threshold:t=" + std::string(t)), HasSubstr("root mean square"));
  }
  EXPECT_THAT(complaint("threshold:k=3"), HasSubstr("allowed: t value index"));
}

TEST(Spec, SaysWhatToUseInPlaceOfWhatWasRemoved) {
  for (const char* name : {"nf4", "e2m1", "e3m0"}) {
    EXPECT_THAT(complaint("dense:" + std::string(name) + ",block=64"),
                HasSubstr("\"" + std::string(name) + "\" was removed; use int4"));
  }
  EXPECT_THAT(complaint("topk:value=ternary"), HasSubstr("was removed; use 2bit or 1bit"));
  EXPECT_THAT(complaint("randk:k=64,seed=1"), HasSubstr("\"randk\" was removed; use topk"));
  EXPECT_THAT(complaint("topk-global:density=0.1"), HasSubstr("was removed; use topk"));
}

}  // namespace
}  // namespace causeway::compression
