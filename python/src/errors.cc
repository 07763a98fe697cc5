// bertie::Error as bertie.Error.
#include <nanobind/nanobind.h>

#include <string>
#include <string_view>

#include "bertie/error.h"
#include "calls.h"
#include "module.h"

namespace bertie::python {
namespace {

namespace nb = nanobind;

constexpr const char* kAbout =
    "What a user, a file or a socket can cause. str() says what is wrong, why, and what to try.\n\n"
    "message: the first two; hint: the last, or ''; field: the argument at fault, or ''.";

PyObject* error_type = nullptr;  // lives as long as the module

// Options have the same names here as in C++; a backtick that came from a file or a user is \` there.
std::string unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i)
    if (text.substr(i, 2) != "\\`") out += text[i];
  return out;
}

void raise(const Error& error) {
  const std::string message = unescaped(error.what()), hint = unescaped(error.hint());
  const nb::object raised =
      nb::borrow(error_type)(python_str(hint.empty() ? message : message + "\n  try: " + hint));
  raised.attr("message") = python_str(message);
  raised.attr("hint") = python_str(hint);
  raised.attr("field") = python_str(error.field());
  PyErr_SetObject(error_type, raised.ptr());
}

}  // namespace

void bind_errors(nb::module_& m) {
  error_type = PyErr_NewExceptionWithDoc("bertie.Error", kAbout, PyExc_RuntimeError, nullptr);
  m.attr("Error") = nb::borrow(error_type);
  // So that an Error that Python code raises has them too.
  for (const char* name : {"message", "hint", "field"}) m.attr("Error").attr(name) = "";
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      raise(error);
    }
  });
}

}  // namespace bertie::python
