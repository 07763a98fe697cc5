#include "bertie/tokenizer.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/shared_ptr.h>

#include <optional>
#include <string>
#include <vector>

#include "arrays.h"
#include "calls.h"
#include "module.h"
#include "result_class.h"

namespace bertie::python {

namespace {

// What Python gives as ids, one list of them.
std::vector<int32_t> ids_of(const nb::sequence& ids) {
  std::vector<int32_t> out;
  out.reserve(nb::len(ids));
  for (nb::handle id : ids) out.push_back(nb::cast<int32_t>(nb::int_(id)));
  return out;
}

nb::object id_or_none(int32_t id) { return id < 0 ? nb::none() : nb::object(nb::int_(id)); }

EncodeOptions options_of(std::optional<size_t> max_length, size_t stride, Truncate truncate,
                         bool add_special_tokens) {
  return {.max_length = max_length.value_or(kNoLimit),
          .stride = stride,
          .truncate = truncate,
          .add_special_tokens = add_special_tokens};
}

std::vector<Encoding> encode_all(const Tokenizer& tokenizer, const Texts& texts, const Texts* pairs,
                                 const EncodeOptions& options, bool windows) {
  std::vector<Encoding> all;
  all.reserve(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    if (windows) {
      auto some = pairs ? tokenizer.encode_windows(texts[i], (*pairs)[i], options)
                        : tokenizer.encode_windows(texts[i], options);
      for (Encoding& one : some) all.push_back(std::move(one));
    } else {
      all.push_back(pairs ? tokenizer.encode(texts[i], (*pairs)[i], options)
                          : tokenizer.encode(texts[i], options));
    }
  }
  return all;
}

void bind_encoding(nb::module_& m) {
  result_class(m, "Encoding", "A text as tokens: an entry for each in every list.",
               Field{"ids", &Encoding::ids}, Field{"types", &Encoding::types},
               Field{"offsets", &Encoding::offsets}, Field{"words", &Encoding::words},
               Field{"sequences", &Encoding::sequences}, Field{"truncated", &Encoding::truncated});
}

}  // namespace

void bind_tokenizer(nb::module_& m) {
  bind_encoding(m);
  nb::class_<Tokenizer>(m, "Tokenizer", "Text to ids and places, equal to Hugging Face's fast tokenizers.")
      .def_static(
          "load",
          [](const std::string& files) {
            nb::gil_scoped_release free;
            return std::make_shared<const Tokenizer>(Tokenizer::load(files));
          },
          nb::arg("files"))
      .def_static(
          "file_in", [](const std::string& files) { return Tokenizer::file_in(files); }, nb::arg("files"))
      .def(
          "encode",
          [](const Tokenizer& self, nb::str text, std::optional<nb::str> pair,
             std::optional<size_t> max_length, size_t stride, Truncate truncate, bool add_special_tokens) {
            const EncodeOptions options = options_of(max_length, stride, truncate, add_special_tokens);
            return pair ? self.encode(text_of(text), text_of(*pair), options)
                        : self.encode(text_of(text), options);
          },
          nb::arg("text"), nb::arg("pair") = nb::none(), nb::arg("max_length") = nb::none(),
          nb::arg("stride") = 0, nb::arg("truncate") = Truncate::kLongestFirst,
          nb::arg("add_special_tokens") = true)
      .def(
          "encode_many",
          [](const Tokenizer& self, ListOfTexts texts, std::optional<ListOfTexts> pairs,
             std::optional<size_t> max_length, size_t stride, Truncate truncate, bool add_special_tokens,
             bool windows) {
            const HeldTexts held(texts);
            const std::optional<HeldTexts> held_pairs =
                pairs ? std::optional<HeldTexts>(std::in_place, *pairs) : std::nullopt;
            if (held_pairs && held_pairs->size() != held.size())
              throw nb::value_error("there are not as many second texts as first ones");
            const Texts first = held.texts(), second = held_pairs ? held_pairs->texts() : Texts();
            nb::gil_scoped_release free;
            return encode_all(self, first, held_pairs ? &second : nullptr,
                              options_of(max_length, stride, truncate, add_special_tokens), windows);
          },
          nb::arg("texts"), nb::arg("pairs") = nb::none(), nb::arg("max_length") = nb::none(),
          nb::arg("stride") = 0, nb::arg("truncate") = Truncate::kLongestFirst,
          nb::arg("add_special_tokens") = true, nb::arg("windows") = false,
          "Encodings of all texts, or with `windows` of all their windows, one after the other.")
      .def(
          "decode",
          [](const Tokenizer& self, nb::typed<nb::sequence, int> ids, bool skip_special) {
            return python_str(self.decode(ids_of(ids), skip_special));
          },
          nb::arg("ids"), nb::arg("skip_special") = true)
      .def("join", &Tokenizer::join, nb::arg("tokens"), "The text of tokens, as token() gives them.")
      .def(
          "token", [](const Tokenizer& self, int32_t id) { return python_str(self.token(id)); },
          nb::arg("id"))
      .def(
          "id", [](const Tokenizer& self, nb::str token) { return self.id(text_of(token)); },
          nb::arg("token"))
      .def("is_special", &Tokenizer::is_special, nb::arg("id"))
      .def_prop_ro("vocab_size", &Tokenizer::vocab_size)
      .def_prop_ro("kind", [](const Tokenizer& self) { return python_str(self.kind()); })
      .def_prop_ro("lowercase", &Tokenizer::lowercase)
      .def_prop_ro("marks_continuations", &Tokenizer::marks_continuations)
      .def_prop_ro("model_max_length",
                   [](const Tokenizer& self) -> std::optional<size_t> {
                     const size_t length = self.model_max_length();
                     return length == kNoLimit ? std::nullopt : std::optional(length);
                   })
      .def_prop_ro("cls_id", [](const Tokenizer& t) { return id_or_none(t.cls_id()); })
      .def_prop_ro("sep_id", [](const Tokenizer& t) { return id_or_none(t.sep_id()); })
      .def_prop_ro("pad_id", [](const Tokenizer& t) { return id_or_none(t.pad_id()); })
      .def_prop_ro("unk_id", [](const Tokenizer& t) { return id_or_none(t.unk_id()); })
      .def_prop_ro("mask_id", [](const Tokenizer& t) { return id_or_none(t.mask_id()); })
      .def_prop_ro("bos_id", [](const Tokenizer& t) { return id_or_none(t.bos_id()); })
      .def_prop_ro("eos_id", [](const Tokenizer& t) { return id_or_none(t.eos_id()); })
      .def("__repr__", [](const Tokenizer& t) {
        return nb::str(
            nb::str("Tokenizer({}, {} tokens)").attr("format")(python_str(t.kind()), t.vocab_size()));
      });
}

}  // namespace bertie::python
