#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compression/codec.h"

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
  EXPECT_EQ(make_codec("dense:fp32")->spec(), "dense:fp32");
  EXPECT_EQ(make_codec("dense:int8")->spec(), "dense:int8,block=128");
  EXPECT_EQ(make_codec("topk")->spec(), "topk:k=64,chunk=4096,value=2bit,index=elias-fano");
  EXPECT_EQ(make_codec("topk:index=elias-fano,k=41")->spec(),
            "topk:k=41,chunk=4096,value=2bit,index=elias-fano");
}

TEST(Spec, CanonicalSpecsAreFixedPoints) {
  for (const char* spec : {"dense:fp32", "dense:int8,block=64", "topk:k=1", "topk:k=4096"}) {
    const std::string full = make_codec(spec)->spec();
    EXPECT_EQ(make_codec(full)->spec(), full);
  }
}

TEST(Spec, KnowsWhichCodecsDropCoordinates) {
  EXPECT_TRUE(make_codec("topk")->is_sparse());
  EXPECT_FALSE(make_codec("dense:int8")->is_sparse());
  EXPECT_FALSE(make_codec("dense:fp32")->is_sparse());
}

TEST(Spec, RefusesNamingThePartAndWhatIsAllowed) {
  EXPECT_THAT(complaint("sparse:k=1"), AllOf(HasSubstr("\"sparse\""), HasSubstr("dense, topk")));
  EXPECT_THAT(complaint(""), HasSubstr("allowed: dense, topk"));
  EXPECT_THAT(complaint("dense"), HasSubstr("dense:int8"));
  EXPECT_THAT(complaint("dense:int7"), AllOf(HasSubstr("\"int7\""), HasSubstr("int8")));
  EXPECT_THAT(complaint("dense:int8,blok=64"),
              AllOf(HasSubstr("\"blok\""), HasSubstr("allowed: block")));
  EXPECT_THAT(complaint("dense:int8,block=96"),
              AllOf(HasSubstr("block=96"), HasSubstr("power of two")));
  EXPECT_THAT(complaint("dense:int8,block=8192"), HasSubstr("block=8192"));
  EXPECT_THAT(complaint("dense:fp32,block=128"), AllOf(HasSubstr("\"block\""), HasSubstr("none")));
  EXPECT_THAT(complaint("topk:k=0"), AllOf(HasSubstr("k=0"), HasSubstr("1 to 4096")));
  EXPECT_THAT(complaint("topk:k=4097"), HasSubstr("k=4097"));
  EXPECT_THAT(complaint("topk:k=-1"), HasSubstr("k=-1"));
  EXPECT_THAT(complaint("topk:k=99999999999999999999"), HasSubstr("1 to 4096"));
  EXPECT_THAT(complaint("topk:k=64x"), HasSubstr("k=64x"));
  EXPECT_THAT(complaint("topk:chunk=64"), HasSubstr("4096"));
  EXPECT_THAT(complaint("topk:value=int4"), AllOf(HasSubstr("value=int4"), HasSubstr("2bit")));
  EXPECT_THAT(complaint("topk:index=rice"), HasSubstr("elias-fano"));
  EXPECT_THAT(complaint("topk:fast"), HasSubstr("\"fast\""));
  EXPECT_THAT(complaint("topk:k=1,k=2"), HasSubstr("twice"));
  EXPECT_THAT(complaint("topk:k=1,"), HasSubstr("key=value"));
  EXPECT_THAT(complaint("topk:"), HasSubstr("key=value"));
  EXPECT_THAT(complaint("dense:int8,int8"), HasSubstr("key=value"));
}

}  // namespace
}  // namespace causeway::compression
