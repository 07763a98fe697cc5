#include "train/ranks/collective.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include "bertie/error.h"
#include "bertie/launcher.h"
#include "core/parallel.h"
#include "core/system.h"
#include "train/ranks/mpi/module.h"

namespace bertie {
namespace {

namespace fs = std::filesystem;

class Alone final : public Collective {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int ranks_here() const override { return 1; }
  void start_sum(std::span<float>) override {}
  void finish_sums() override {}
  void sum(std::span<double>) override {}
  void broadcast(std::string&) override {}
  void broadcast(std::span<float>) override {}
  void barrier() override {}
  void abort(int code) override { std::_Exit(code); }
};

// Where the module may be: beside the program or the library, as in a build folder, or where it is
// installed.
std::vector<fs::path> module_places() {
  std::vector<fs::path> places;
  std::error_code error;
  if (const fs::path program = program_path(); !program.empty()) {
    places.push_back(program.parent_path());
    places.push_back(program.parent_path() / BERTIE_MODULES_FROM_PROGRAM);
  }
  Dl_info here;
  if (dladdr(reinterpret_cast<const void*>(&module_places), &here) && here.dli_fname) {
    const fs::path library = fs::absolute(here.dli_fname, error).parent_path();
    places.push_back(library);
    places.push_back(library / "bertie");
  }
  return places;
}

MpiJoin open_module(int ranks) {
  const std::string started =
      ranks > 0 ? fmt::format("mpirun started {} ranks", ranks) : "ranks were started";
  for (const fs::path& place : module_places()) {
    const fs::path file = place / kMpiModule;
    std::error_code error;
    if (!fs::exists(file, error)) continue;
    // Global: Open MPI opens parts of itself that look for its names.
    void* const module = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (!module)
      throw Error(fmt::format("{}, but {} does not open: {}", started, file.string(), dlerror()),
                  "install libopenmpi3 and openmpi-bin");
    if (void* const join = dlsym(module, kMpiEntry)) return reinterpret_cast<MpiJoin>(join);
    throw Error(fmt::format("{} has no {}: it is not Bertie's", file.string(), kMpiEntry));
  }
  throw Error(fmt::format("{}, but there is no {} beside this program: it was built without MPI", started,
                          kMpiModule),
              "install libopenmpi-dev and build again; or run without mpirun");
}

}  // namespace

std::unique_ptr<Collective> join_ranks(const OnDeath& on_death) {
  const Launcher launcher = Launcher::find();
  if (!launcher.several()) return std::make_unique<Alone>();
  std::unique_ptr<Collective> joined(open_module(*launcher.ranks)(BERTIE_VERSION, on_death));
  if (!joined)
    throw Error(
        fmt::format("{} belongs to another version of Bertie than this, {}", kMpiModule, BERTIE_VERSION),
        "install both from one build");
  return joined;
}

int threads_for_rank(const Collective& ranks) {
  const int cores = int(std::thread::hardware_concurrency());
  return std::clamp(cores / ranks.ranks_here(), 1, std::max(1, available_threads()));
}

}  // namespace bertie
