#include "intra/cuda/device/shared_library.h"

#include <gtest/gtest.h>

#include <cmath>
#include <system_error>

namespace causeway::intra::cuda {
namespace {

TEST(SharedLibrary, FindsAFunction) {
  const SharedLibrary library("libm.so.6");
  double (*root)(double) = nullptr;
  library.find("sqrt", root);
  EXPECT_EQ(root(9.0), 3.0);
}

TEST(SharedLibrary, SaysWhatIsMissingAndWhatToDo) {
  const auto message = [](const auto& action) {
    try {
      action();
    } catch (const std::system_error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string no_library = message([] { SharedLibrary("libnone-such.so.7"); });
  EXPECT_NE(no_library.find("libnone-such.so.7"), std::string::npos) << no_library;
  EXPECT_NE(no_library.find("LD_LIBRARY_PATH"), std::string::npos) << no_library;
  const std::string no_function = message([] {
    double (*missing)(double) = nullptr;
    SharedLibrary("libm.so.6").find("no_such_function", missing);
  });
  EXPECT_NE(no_function.find("no_such_function in libm.so.6"), std::string::npos) << no_function;
}

}  // namespace
}  // namespace causeway::intra::cuda
