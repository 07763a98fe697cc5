// Ranks over MPI, as mpirun starts them: tests/train/mpi/ranks.cc is one of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "train/mpirun.h"
#include "train/ranks/collective.h"

namespace bertie {
namespace {

using test::kBuild, test::mpirun, test::Result, test::run_shell;

Result rank_test(int ranks, const std::string& what) { return mpirun(ranks, kBuild + "/mpi_ranks", what); }

class Ranks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Of, Ranks, testing::Values(2, 3, 4));

TEST_P(Ranks, AddPartsUpInTheirOrderToTheBit) {
  BERTIE_NEEDS_MPI();
  const Result result = rank_test(GetParam(), "sums");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, fmt::format("{} ranks: all well\n", GetParam()));
}

TEST_P(Ranks, AgreeOnSmallThings) {
  BERTIE_NEEDS_MPI();
  const Result result = rank_test(GetParam(), "small");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, fmt::format("{} ranks: all well\n", GetParam()));
}

// `timeout` would give 124.
TEST(RanksOverMpi, ThatDieStopTheOthersAndOneOfThemSaysWhatToDo) {
  BERTIE_NEEDS_MPI();
  for (const char* how : {"dies_while_others_wait", "dies_while_others_compute"}) {
    const Result result = rank_test(3, how);
    EXPECT_NE(result.code, 0);
    EXPECT_NE(result.code, 124) << "the others went on waiting";
    EXPECT_NE(result.err.find("rank 1 (process "), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("has died; all 3 ranks stop"), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("`resume` continues"), std::string::npos) << result.err;
    EXPECT_EQ(result.err.find("nobody stopped"), std::string::npos) << result.err;
  }
}

TEST(RanksOverMpi, ThatMeetAnErrorTellItAndStopTheOthers) {
  BERTIE_NEEDS_MPI();
  const Result result = rank_test(3, "throws");
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_NE(result.err.find("the disk of rank 1 is full"), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("nobody stopped"), std::string::npos) << result.err;
}

TEST(RanksOverMpi, CanBeAbortedByOne) {
  BERTIE_NEEDS_MPI();
  EXPECT_EQ(rank_test(3, "aborts").code, 7);
}

TEST(RanksOverMpi, WithoutTheModuleAreRefused) {
  BERTIE_NEEDS_MPI();
  const test::TemporaryFolder folder;
  test::fs::copy_file(kBuild + "/mpi_ranks", folder / "mpi_ranks");
  const Result result = mpirun(2, folder / "mpi_ranks", "sums");
  EXPECT_EQ(result.code, 3);
  EXPECT_NE(result.err.find("mpirun started 2 ranks, but there is no bertie_mpi.so"), std::string::npos)
      << result.err;
}

TEST(RanksOverMpi, AreNotNeededForOne) {
  const test::TemporaryFolder folder;
  test::fs::copy_file(kBuild + "/mpi_ranks", folder / "mpi_ranks");
  const Result alone = run_shell(fmt::format("OMPI_COMM_WORLD_SIZE=1 '{}'", (folder / "mpi_ranks").string()));
  EXPECT_EQ(alone.code, 0) << alone.err;
  EXPECT_EQ(alone.out, "1 ranks: all well\n");
}

TEST(OneRank, ChangesNothing) {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"}) unsetenv(name);
  const auto alone = join_ranks();
  EXPECT_EQ(alone->size(), 1);
  EXPECT_EQ(alone->rank(), 0);
  std::vector<float> x{1, 2};
  std::vector<double> y{3};
  std::string text = "text";
  alone->start_sum(x);
  alone->finish_sums();
  alone->sum(y);
  alone->broadcast(text);
  alone->barrier();
  EXPECT_EQ(x, (std::vector<float>{1, 2}));
  EXPECT_EQ(y, (std::vector<double>{3}));
  EXPECT_EQ(text, "text");
  EXPECT_GE(threads_for_rank(*alone), 1);
}

}  // namespace
}  // namespace bertie
