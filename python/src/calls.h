#pragma once
// What every call from Python needs: texts as views, and word of how far it is, with which Ctrl-C gets
// through.
#include <nanobind/nanobind.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/results.h"

namespace bertie::python {

namespace nb = nanobind;

using ListOfTexts = nb::typed<nb::sequence, nb::str>;
using ListOfPairs = nb::typed<nb::sequence, nb::typed<nb::tuple, nb::str, nb::str>>;

// The UTF-8 that a str keeps, without a copy. `place` is for errors: which of many.
std::string_view text_of(nb::handle text, size_t place = SIZE_MAX);

// The other way; what is not UTF-8 becomes U+FFFD.
nb::str python_str(std::string_view text);

// Python's strings as Texts. They are held here, so that they outlive a call that has let the GIL go.
class HeldTexts {
 public:
  explicit HeldTexts(const nb::sequence& texts);
  Texts texts() const { return views_; }
  size_t size() const { return views_.size(); }

 private:
  std::vector<nb::object> held_;
  std::vector<std::string_view> views_;
};

// The same for pairs; First and Second are the members of what it is a list of.
template <class Pair>
class HeldPairs {
 public:
  explicit HeldPairs(const nb::sequence& pairs) {
    size_t place = 0;
    for (nb::handle pair : pairs) {
      if (!PySequence_Check(pair.ptr()) || PyUnicode_Check(pair.ptr()) || nb::len(pair) != 2)
        throw nb::type_error(("item " + std::to_string(place) + " is no pair of texts").c_str());
      for (size_t i : {0, 1}) held_.push_back(nb::object(pair[i]));
      pairs_.push_back({text_of(held_[2 * place], place), text_of(held_[2 * place + 1], place)});
      ++place;
    }
  }
  std::span<const Pair> pairs() const { return pairs_; }

 private:
  std::vector<nb::object> held_;
  std::vector<Pair> pairs_;
};

// Raises KeyboardInterrupt, or what else a signal's handler raises. Needs the GIL.
void check_signals();

// What Python's `if` would make of it.
bool is_true(nb::handle object);

// Calls callback(done, of) where there is one, and looks for signals in any case. The callback must outlive
// what is made here, as arguments of a call do.
ProgressCallback progress_for(nb::handle callback);

}  // namespace bertie::python
