// _bertie: the library as Python sees it, before python/bertie/ makes it convenient.
#include "module.h"

NB_MODULE(_bertie, m) {
  m.doc() = "Bertie's C++ library; the package bertie is what to import.";
  m.attr("__version__") = BERTIE_VERSION;
  bertie::python::bind_errors(m);
  bertie::python::bind_tokenizer(m);
  bertie::python::bind_results(m);
  bertie::python::bind_text_model(m);
  bertie::python::bind_network(m);
  bertie::python::bind_attention_call(m);
  bertie::python::bind_training(m);
  bertie::python::bind_vector_index(m);
}
