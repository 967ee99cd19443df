#include "apps/run/simulate/python_mistake.h"

#include <fstream>

#include <gtest/gtest.h>

#include "tests/apps/temporary.h"

namespace causeway::run {
namespace {

const std::string kNameError =
    "Traceback (most recent call last):\n"
    "  File \"/a/train.py\", line 9, in <module>\n    main()\n"
    "  File \"/a/train.py\", line 7, in main\n    print(unknown)\n          ^^^^^^^\n"
    "NameError: name 'unknown' is not defined\n";
const std::string kGone =
    "Traceback (most recent call last):\n  File \"/a/train.py\", line 5, in main\n"
    "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]\n";

TEST(PythonMistake, NamesTheInnermostPlaceAndTheException) {
  EXPECT_EQ(python_mistake("loss 1.5\n" + kNameError + "bye\n"),
            "/a/train.py, line 7: NameError: name 'unknown' is not defined");
  EXPECT_EQ(python_mistake("loss 1.5\nError: nothing\n"), std::nullopt);
}

TEST(PythonMistake, OfRanksItIsThatOfTheProgramAndNotOfTheLauncher) {
  const std::string of_rank =
      "[rank1]: Traceback (most recent call last):\n"
      "[rank1]:   File \"/a/train.py\", line 7, in main\n[rank1]:     model.append(x)\n"
      "[rank1]: ValueError: the model changed after it entered the run\n";
  const std::string of_launcher =
      "Traceback (most recent call last):\n  File \"/lib/torch/run.py\", line 900, in main\n"
      "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n=====\n";
  EXPECT_EQ(python_mistake(of_rank + kGone + of_launcher),
            "/a/train.py, line 7: ValueError: the model changed after it entered the run");
}

TEST(PythonMistake, WhoLostAnotherMadeNone) {
  EXPECT_EQ(python_mistake(kGone), std::nullopt);
  EXPECT_EQ(python_mistake("Traceback (most recent call last):\n  File \"a.py\", line 5, in f\n"
                           "causeway._causeway.WorkerError: rank 0 of this region stopped\n"),
            std::nullopt);
}

class RepeatedMistakeTest : public testing::Test {
 protected:
  void print(const std::string& text) { std::ofstream(log_, std::ios::app) << text; }
  const TemporaryDirectory directory_;
  const std::filesystem::path log_ = directory_.path() / "worker-0.log";
  RepeatedMistake mistakes_;
};

TEST_F(RepeatedMistakeTest, IsToldTheSecondTimeInARow) {
  print(kNameError);
  EXPECT_EQ(mistakes_.on_end(log_), std::nullopt);
  print("again\n" + kNameError);
  EXPECT_EQ(mistakes_.on_end(log_),
            "/a/train.py, line 7: NameError: name 'unknown' is not defined");
}

TEST_F(RepeatedMistakeTest, IsNoneAtAnotherPlaceOrAfterALifeWithout) {
  print(kNameError);
  EXPECT_EQ(mistakes_.on_end(log_), std::nullopt);
  print(kGone);
  EXPECT_EQ(mistakes_.on_end(log_), std::nullopt);
  print(kNameError);
  EXPECT_EQ(mistakes_.on_end(log_), std::nullopt);
  std::string elsewhere = kNameError;
  elsewhere.replace(elsewhere.find("line 7"), 6, "line 8");
  print(elsewhere);
  EXPECT_EQ(mistakes_.on_end(log_), std::nullopt);
}

}  // namespace
}  // namespace causeway::run
