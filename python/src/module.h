#pragma once
// What the files of the module add to it.
#include <nanobind/nanobind.h>

namespace bertie::python {

void bind_errors(nanobind::module_& m);
void bind_tokenizer(nanobind::module_& m);
void bind_results(nanobind::module_& m);
void bind_text_model(nanobind::module_& m);
void bind_network(nanobind::module_& m);
void bind_attention_call(nanobind::module_& m);
void bind_training(nanobind::module_& m);
void bind_vector_index(nanobind::module_& m);

}  // namespace bertie::python
