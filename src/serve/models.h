#pragma once
// The models that are served, by name. Thread-safe: a reload puts others in their place, and whoever has one
// keeps it.
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/serve.h"
#include "serve/served_model.h"

namespace bertie::serve {

class Models {
 public:
  // Loads all of them; Error leaves what there was.
  void load(const ServeOptions& options);

  std::vector<ModelPointer> all() const;
  // By its name, or the last part of it; 404 where there is none. An empty name is the default one.
  ModelPointer find(std::string_view name) const;
  // One that can do this: the one of this name, or else the first that can. 404 or 422 where there is none.
  ModelPointer with_head(Head head, std::string_view name = {}) const;
  ModelPointer with_vectors(std::string_view name = {}) const;

 private:
  template <class Can>
  ModelPointer first_that(std::string_view name, std::string_view what, const Can& can) const;

  mutable std::mutex mutex_;
  std::vector<ModelPointer> models_;
};

}  // namespace bertie::serve
