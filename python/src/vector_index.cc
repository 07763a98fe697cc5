// Vectors that were saved, and models in 8-bit integers.
#include "bertie/vector_index.h"

#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bertie/quantize.h"
#include "calls.h"
#include "module.h"
#include "result_class.h"

BERTIE_WORDS(bertie::VectorNumbers, "'float16', 'int8'", {bertie::VectorNumbers::kFloat16, "float16"},
             {bertie::VectorNumbers::kInt8, "int8"})

namespace bertie::python {
namespace {

// Rows and the texts that they are of, written through at the end: each call is a place to go on from.
void add(VectorIndexWriter& writer, const Numbers<float, 2>& vectors, ListOfTexts texts) {
  const HeldTexts held(texts);
  if (vectors.shape(0) != held.size()) throw nb::value_error("there is not a vector for every text");
  nb::gil_scoped_release free;
  const Matrix<const float> rows = matrix_of(vectors);
  for (size_t i = 0; i < held.size(); ++i) writer.add(rows[i], held.texts()[i]);
  writer.mark();
}

// For each query the nearest rows, best first.
std::vector<std::vector<Ranked>> search(const VectorIndex& index, const Numbers<float, 2>& queries,
                                        size_t top, int threads) {
  if (queries.shape(1) != index.dimension())
    throw nb::value_error(("a query has " + std::to_string(queries.shape(1)) + " numbers, the index " +
                           std::to_string(index.dimension()))
                              .c_str());
  const Matrix<const float> rows = matrix_of(queries);
  std::vector<std::vector<Ranked>> found;
  for (size_t i = 0; i < queries.shape(0); ++i) {
    {
      nb::gil_scoped_release free;
      found.push_back(index.search(rows[i], top, threads));
    }
    check_signals();
  }
  return found;
}

}  // namespace

void bind_vector_index(nb::module_& m) {
  nb::class_<VectorIndexWriter>(m, "VectorIndexWriter", "A folder of vectors that is being written.")
      .def(
          "__init__",
          [](VectorIndexWriter* self, const std::filesystem::path& folder, size_t dimension,
             VectorNumbers numbers, const std::string& model, const std::string& pooling,
             const std::string& how, bool resume) {
            new (self) VectorIndexWriter(
                folder,
                {.dimension = dimension, .numbers = numbers, .model = model, .pooling = pooling, .how = how},
                resume);
          },
          nb::arg("folder"), nb::arg("dimension"), nb::arg("numbers") = VectorNumbers::kFloat16,
          nb::arg("model") = "", nb::arg("pooling") = "", nb::arg("how") = "", nb::arg("resume") = false)
      .def("__len__", &VectorIndexWriter::size)
      .def("add", &add, nb::arg("vectors"), nb::arg("texts"))
      .def("commit", &VectorIndexWriter::commit, nb::call_guard<nb::gil_scoped_release>());

  nb::class_<VectorIndex>(m, "VectorIndex", "A folder of vectors to search.")
      .def(nb::init<const std::filesystem::path&>(), nb::arg("folder"))
      .def("__len__", &VectorIndex::size)
      .def(
          "text",
          [](const VectorIndex& self, size_t i) {
            if (i >= self.size()) throw nb::index_error("there is no such text");
            return python_str(self.text(i));
          },
          nb::arg("i"))
      .def("search", &search, nb::arg("queries"), nb::arg("top") = 10, nb::arg("threads") = 0)
      .def_prop_ro("dimension", &VectorIndex::dimension)
      .def_prop_ro("numbers", [](const VectorIndex& self) { return self.options().numbers; })
      .def_prop_ro("model", [](const VectorIndex& self) { return self.options().model; })
      .def_prop_ro("pooling", [](const VectorIndex& self) { return self.options().pooling; })
      .def_prop_ro("how", [](const VectorIndex& self) { return self.options().how; });

  result_class(m, "Quantized", "What quantizing did to a model.",
               Field{"bytes_before", &Quantized::bytes_before}, Field{"bytes", &Quantized::bytes},
               Field{"mean_cosine", &Quantized::mean_cosine}, Field{"worst_cosine", &Quantized::worst_cosine},
               Field{"tokens", &Quantized::tokens});
  m.def(
      "quantize",
      [](const std::string& files, const std::filesystem::path& to, const std::vector<std::string>& texts,
         bool force) {
        nb::gil_scoped_release free;
        return quantize({.from = files, .to = to, .texts = texts, .force = force});
      },
      nb::arg("files"), nb::arg("to"), nb::arg("texts") = std::vector<std::string>(),
      nb::arg("force") = false);
}

}  // namespace bertie::python
