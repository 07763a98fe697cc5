#include "calls.h"

#include <string>

namespace bertie::python {

std::string_view text_of(nb::handle text, size_t place) {
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_Check(text.ptr()) ? PyUnicode_AsUTF8AndSize(text.ptr(), &size) : nullptr;
  if (bytes) return {bytes, size_t(size)};
  const std::string which = place == SIZE_MAX ? "the text" : "item " + std::to_string(place);
  if (PyErr_Occurred()) {
    PyErr_Clear();
    throw nb::value_error((which + " cannot be UTF-8: it has half of a surrogate pair").c_str());
  }
  const nb::str type(text.type().attr("__name__"));
  throw nb::type_error((which + " is not a str but a " + type.c_str()).c_str());
}

nb::str python_str(std::string_view text) {
  return nb::steal<nb::str>(PyUnicode_DecodeUTF8(text.data(), Py_ssize_t(text.size()), "replace"));
}

HeldTexts::HeldTexts(const nb::sequence& texts) {
  const size_t count = nb::len(texts);
  held_.reserve(count);
  views_.reserve(count);
  for (nb::handle text : texts) {
    held_.push_back(nb::borrow(text));
    views_.push_back(text_of(text, views_.size()));
  }
}

void check_signals() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

bool is_true(nb::handle object) {
  const int answer = PyObject_IsTrue(object.ptr());
  if (answer < 0) throw nb::python_error();
  return answer != 0;
}

ProgressCallback progress_for(nb::handle callback) {
  return [callback](size_t done, size_t of) {
    nb::gil_scoped_acquire gil;
    check_signals();
    if (!callback.is_none()) callback(done, of);
  };
}

}  // namespace bertie::python
