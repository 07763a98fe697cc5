#pragma once
// Models by name: downloaded once from a Hugging Face hub, then found in the cache that Python uses too.
//
//   bertie::pull("sentence-transformers/all-MiniLM-L6-v2");  // needs the network
//   auto model = bertie::load("sentence-transformers/all-MiniLM-L6-v2");
//
// A name is organization/model or model, and may go on with @ and a branch, a tag or a commit. Nothing but
// pull goes to the network. Everything here may be called from any thread; pulls of the same file, also by
// other programs, wait for each other.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/export.h"

namespace bertie {

// Which hub, and where its files go.
struct BERTIE_API Hub {
  std::string endpoint = "https://huggingface.co";
  std::string token = {};            // for models that are private or gated
  std::filesystem::path cache = {};  // holds models--organization--model/{blobs,refs,snapshots}
  bool offline = false;
  double timeout = 10;  // seconds to connect, or without a sign of life, before it tries again

  // As huggingface_hub reads it: HF_ENDPOINT, HF_TOKEN, HF_TOKEN_PATH, HF_HOME, HF_HUB_CACHE,
  // XDG_CACHE_HOME, HF_HUB_OFFLINE, HF_HUB_DOWNLOAD_TIMEOUT.
  static Hub from_environment();
};

// A folder is itself; a name gives its snapshot in the cache. An Error says what was looked for, names a
// model that is there and is spelled alike, and how to get the one that was meant.
BERTIE_API std::filesystem::path find_model(const std::string& name_or_folder,
                                            const Hub& hub = Hub::from_environment());

// Names of the models that are part of the program, and need no file: bertie-mini, and below it what was
// fine-tuned from it. A folder of such a name is meant by ./NAME.
BERTIE_API std::vector<std::string> embedded_models();

struct PullProgress {
  std::string_view file;
  uint64_t done = 0, total = 0;   // bytes of all files that were not here; total may still grow at the start
  std::string_view waiting = {};  // not empty: nothing moves, and this is why
};

struct PullOptions {
  // Called many times a second while data comes; false stops the download, with an Error. What has come
  // stays, and the next pull goes on from there.
  std::function<bool(const PullProgress&)> progress = {};
  // How to wait some seconds before the next try; empty: sleep.
  std::function<void(double)> wait = {};
};

struct PullResult {
  std::filesystem::path path;  // the snapshot: a model's folder
  std::string commit = {};
  size_t files = 0;         // that Bertie uses
  uint64_t bytes = 0;       // of these
  uint64_t downloaded = 0;  // bytes that came now; 0 where all was here
};

// Gets what Bertie reads of a model: configuration, tokenizer and safetensors. Every file is checked against
// its SHA sum; the model appears under its name when all of it is there. Throws Error.
BERTIE_API PullResult pull(const std::string& name, const PullOptions& options = {},
                           const Hub& hub = Hub::from_environment());

// One snapshot of a model in the cache.
struct CachedModel {
  std::string name = {};               // organization/model
  std::string commit = {};             // empty: a download that has only begun
  std::vector<std::string> refs = {};  // branches and tags that stand at this commit: main
  std::string model_type = {};         // config.json's, or empty
  uint64_t bytes = 0;                  // of its files on disk
  std::filesystem::path path = {};
  std::string problem = {};  // empty: complete; else what is missing
};

// Sorted by name. A cache that is not there is empty.
BERTIE_API std::vector<CachedModel> cached_models(const Hub& hub = Hub::from_environment());

}  // namespace bertie
