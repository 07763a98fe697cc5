#pragma once
// A struct of the library as a Python class: its members can be read by attribute or, as from a dict, by
// name; it prints itself, compares by value, and can be pickled.
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <new>
#include <tuple>
#include <utility>

#include "casters.h"

namespace bertie::python {

namespace nb = nanobind;

// What all of them do alike, by the names in a tuple.
nb::object fields_of(nb::handle self);
nb::object item_of(nb::handle self, nb::handle key);
nb::tuple values_of(nb::handle self);
nb::str repr_of(nb::handle self);

template <class Struct, class Member>
struct Field {
  const char* name;
  Member Struct::*member;
};
template <class Struct, class Member>
Field(const char*, Member Struct::*) -> Field<Struct, Member>;

template <class Struct, class... Members>
nb::class_<Struct> result_class(nb::module_& m, const char* name, const char* doc,
                                Field<Struct, Members>... fields) {
  nb::class_<Struct> made(m, name, doc);
  made.attr("_fields") = nb::make_tuple(fields.name...);
  (made.def_ro(fields.name, fields.member), ...);
  made.def("keys", &fields_of, nb::sig("def keys(self) -> tuple[str, ...]"));
  made.def(
      "__iter__", [](nb::handle self) { return nb::iter(fields_of(self)); },
      nb::sig("def __iter__(self) -> collections.abc.Iterator[str]"));
  made.def("__len__", [](nb::handle) { return sizeof...(Members); });
  made.def("__getitem__", &item_of, nb::sig("def __getitem__(self, field: str) -> typing.Any"));
  made.def("__repr__", &repr_of);
  made.def(
      "__eq__",
      [](nb::handle self, nb::handle other) {
        return self.type().is(other.type()) && values_of(self).equal(values_of(other));
      },
      nb::sig("def __eq__(self, other: object) -> bool"));
  made.def(
      "__getstate__",
      [fields...](const Struct& self) { return std::tuple<Members...>(self.*(fields.member)...); },
      nb::sig("def __getstate__(self) -> tuple"));
  made.def(
      "__setstate__",
      [fields...](Struct& self, const std::tuple<Members...>& state) {
        new (&self) Struct();
        std::apply([&](const Members&... members) { ((self.*(fields.member) = members), ...); }, state);
      },
      nb::sig("def __setstate__(self, state: tuple) -> None"));
  return made;
}

}  // namespace bertie::python
