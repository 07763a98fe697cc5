// TextModel: a text or many in, results out. The GIL is free while the model works.
#include "bertie/text_model.h"

#include <nanobind/stl/function.h>
#include <nanobind/stl/shared_ptr.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bertie/hub.h"
#include "bertie/info.h"
#include "bertie/json.h"
#include "bertie/senses.h"
#include "bertie/similarity.h"
#include "calls.h"
#include "module.h"
#include "result_class.h"

namespace bertie::python {
namespace {

// What does its work without the GIL, whatever it returns.
template <class Work>
auto without_gil(Work work) {
  nb::gil_scoped_release free;
  return work();
}

TextModel load_model(const std::string& files, int threads, size_t max_length, bool strict,
                     WeightFormat precision, nb::object warning) {
  const nb::handle tell = warning;
  LoadOptions options{.threads = threads, .max_length = max_length, .strict = strict, .format = precision};
  if (!warning.is_none())
    options.warning = [tell](std::string_view what) {
      nb::gil_scoped_acquire gil;
      tell(python_str(what));
    };
  return without_gil([&] { return load(files, options); });
}

nb::tuple embed_many(const TextModel& model, ListOfTexts texts, std::optional<bool> normalize, nb::str prefix,
                     bool windows, nb::object progress) {
  const HeldTexts held(texts);
  const EmbedOptions options{.normalize = normalize,
                             .prefix = text_of(prefix),
                             .windows = windows,
                             .progress = progress_for(progress)};
  const size_t rows = held.size(), dimension = model.dimension();
  Memory<float> out(rows * dimension);
  std::vector<EmbeddedRow> read = without_gil(
      [&] { return model.embed(held.texts(), Matrix<float>(out.data(), rows, dimension), options); });
  return nb::make_tuple(out.release({rows, dimension}), std::move(read));
}

// As embed_many of one text, with less ado.
Array<float> embed_one(const TextModel& model, nb::str text, std::optional<bool> normalize, nb::str prefix,
                       bool windows) {
  const std::string_view texts[] = {text_of(text)};
  const EmbedOptions options{.normalize = normalize, .prefix = text_of(prefix), .windows = windows};
  const size_t dimension = model.dimension();
  Memory<float> out(dimension);
  without_gil([&] { return model.embed(texts, Matrix<float>(out.data(), 1, dimension), options); });
  return out.release({dimension});
}

std::vector<Array<float>> token_vectors(const TextModel& model, ListOfTexts texts,
                                        std::optional<bool> normalize, nb::str prefix, nb::object progress) {
  const HeldTexts held(texts);
  const EmbedOptions options{
      .normalize = normalize, .prefix = text_of(prefix), .progress = progress_for(progress)};
  std::vector<TokenVectors> all = without_gil([&] { return model.token_vectors(held.texts(), options); });
  std::vector<Array<float>> arrays;
  for (TokenVectors& one : all) {
    const size_t tokens = one.tokens, width = tokens ? one.values.size() / tokens : 0;
    arrays.push_back(array_of(std::move(one.values), {tokens, width}));
  }
  return arrays;
}

Attention attend(const TextModel& model, nb::str text, std::optional<nb::str> pair,
                 const std::vector<size_t>& layers) {
  const std::string_view a = text_of(text), b = pair ? text_of(*pair) : std::string_view();
  const AttendOptions options{.layers = layers};
  return without_gil([&] { return pair ? model.attend(a, b, options) : model.attend(a, options); });
}

std::vector<Generation> generate(const TextModel& model, ListOfTexts prompts, size_t max_new_tokens,
                                 double temperature, size_t top_k, double top_p, double repetition_penalty,
                                 uint64_t seed, const std::vector<int32_t>& stop_ids, nb::object on_text,
                                 nb::object progress) {
  const HeldTexts held(prompts);
  GenerateOptions options{.max_new_tokens = max_new_tokens,
                          .temperature = temperature,
                          .top_k = top_k,
                          .top_p = top_p,
                          .repetition_penalty = repetition_penalty,
                          .seed = seed,
                          .stop_ids = stop_ids,
                          .progress = progress_for(progress)};
  if (held.size() != 1) {
    if (!on_text.is_none()) throw nb::value_error("on_text is for one prompt");
    return without_gil([&] { return model.generate(held.texts(), options); });
  }
  // One prompt may take long: each piece of text is an occasion to look for Ctrl-C.
  const nb::handle tell = on_text;
  options.on_text = [tell](std::string_view piece) {
    nb::gil_scoped_acquire gil;
    check_signals();
    if (tell.is_none()) return true;
    const nb::object answer = tell(python_str(piece));
    return answer.is_none() || is_true(answer);  // what returns nothing does not want to stop
  };
  return {without_gil([&] { return model.generate(held.texts()[0], options); })};
}

void bind_tasks(nb::class_<TextModel>& model) {
  model
      .def(
          "fill_mask",
          [](const TextModel& self, ListOfTexts texts, size_t top, const std::vector<std::string>& targets,
             nb::object progress) {
            const HeldTexts held(texts);
            const FillMaskOptions options{.top = top, .targets = targets, .progress = progress_for(progress)};
            return without_gil([&] { return self.fill_mask(held.texts(), options); });
          },
          nb::arg("texts"), nb::arg("top") = 5, nb::arg("targets") = std::vector<std::string>(),
          nb::arg("progress") = nb::none())
      .def(
          "score",
          [](const TextModel& self, ListOfTexts texts, nb::object progress) {
            const HeldTexts held(texts);
            const TextScoreOptions options{.progress = progress_for(progress)};
            return without_gil([&] { return self.score(held.texts(), options); });
          },
          nb::arg("texts"), nb::arg("progress") = nb::none())
      .def(
          "next_sentence",
          [](const TextModel& self, ListOfPairs pairs, nb::object progress) {
            const HeldPairs<TextPair> held(pairs);
            const NextSentenceOptions options{.progress = progress_for(progress)};
            return without_gil([&] { return self.next_sentence(held.pairs(), options); });
          },
          nb::arg("pairs"), nb::arg("progress") = nb::none())
      .def(
          "classify",
          [](const TextModel& self, ListOfTexts texts, Apply apply, nb::object progress) {
            const HeldTexts held(texts);
            const ClassifyOptions options{.apply = apply, .progress = progress_for(progress)};
            return without_gil([&] { return self.classify(held.texts(), options); });
          },
          nb::arg("texts"), nb::arg("apply") = Apply::kByProblem, nb::arg("progress") = nb::none())
      .def(
          "classify_pairs",
          [](const TextModel& self, ListOfPairs pairs, Apply apply, nb::object progress) {
            const HeldPairs<TextPair> held(pairs);
            const ClassifyOptions options{.apply = apply, .progress = progress_for(progress)};
            return without_gil([&] { return self.classify(held.pairs(), options); });
          },
          nb::arg("pairs"), nb::arg("apply") = Apply::kByProblem, nb::arg("progress") = nb::none())
      .def(
          "tag",
          [](const TextModel& self, ListOfTexts texts, std::optional<Aggregation> aggregation,
             std::optional<size_t> stride, bool keep_outside, nb::object progress) {
            const HeldTexts held(texts);
            const TagOptions options{.aggregation = aggregation,
                                     .stride = stride,
                                     .keep_outside = keep_outside,
                                     .progress = progress_for(progress)};
            return without_gil([&] { return self.tag(held.texts(), options); });
          },
          nb::arg("texts"), nb::arg("aggregation") = nb::none(), nb::arg("stride") = nb::none(),
          nb::arg("keep_outside") = false, nb::arg("progress") = nb::none())
      .def(
          "answer",
          [](const TextModel& self, ListOfPairs questions, size_t top, size_t max_answer_tokens,
             size_t max_question_tokens, std::optional<size_t> max_length, std::optional<size_t> stride,
             bool allow_no_answer, bool whole_words, nb::object progress) {
            const HeldPairs<Question> held(questions);
            const AnswerOptions options{.top = top,
                                        .max_answer_tokens = max_answer_tokens,
                                        .max_question_tokens = max_question_tokens,
                                        .max_length = max_length,
                                        .stride = stride,
                                        .allow_no_answer = allow_no_answer,
                                        .whole_words = whole_words,
                                        .progress = progress_for(progress)};
            return without_gil([&] { return self.answer(held.pairs(), options); });
          },
          nb::arg("questions"), nb::arg("top") = 1, nb::arg("max_answer_tokens") = 15,
          nb::arg("max_question_tokens") = 64, nb::arg("max_length") = nb::none(),
          nb::arg("stride") = nb::none(), nb::arg("allow_no_answer") = false, nb::arg("whole_words") = true,
          nb::arg("progress") = nb::none(), "Of pairs of a question and its context.")
      .def("generate", &generate, nb::arg("prompts"), nb::arg("max_new_tokens") = 50,
           nb::arg("temperature") = 0., nb::arg("top_k") = 0, nb::arg("top_p") = 1.,
           nb::arg("repetition_penalty") = 1., nb::arg("seed") = 1,
           nb::arg("stop_ids") = std::vector<int32_t>(), nb::arg("on_text") = nb::none(),
           nb::arg("progress") = nb::none())
      .def(
          "senses",
          [](const TextModel& self, nb::str word, ListOfTexts texts) {
            const HeldTexts held(texts);
            const std::string_view which = text_of(word);
            return without_gil([&] { return senses(self, which, held.texts()); });
          },
          nb::arg("word"), nb::arg("texts"));
}

void bind_handles(nb::class_<TextModel>& model) {
  model.def("with_threads", &TextModel::with_threads, nb::arg("threads"))
      .def("with_max_length", &TextModel::with_max_length, nb::arg("tokens"))
      .def(
          "with_pooling",
          [](const TextModel& self, bool cls, bool mean, bool max, bool mean_sqrt_length, bool normalize) {
            return self.with_pooling({cls, mean, max, mean_sqrt_length, normalize});
          },
          nb::arg("cls") = false, nb::arg("mean") = false, nb::arg("max") = false,
          nb::arg("mean_sqrt_length") = false, nb::arg("normalize") = false)
      .def(
          "without",
          [](const TextModel& self, const std::vector<WhichHead>& heads) { return self.without(heads); },
          nb::arg("heads"), "These heads of attention, (layer, head) from 0, give nothing.")
      .def_prop_ro("heads_off", [](const TextModel& self) { return self.heads_off(); })
      .def("can", &TextModel::can, nb::arg("head"))
      .def_prop_ro(
          "tokenizer", [](const TextModel& self) -> const Tokenizer& { return self.tokenizer(); },
          nb::rv_policy::reference_internal)
      .def_prop_ro("dimension", &TextModel::dimension)
      .def_prop_ro("pooling", [](const TextModel& self) { return pooling_name(self.pooling()); })
      .def_prop_ro("normalizes", [](const TextModel& self) { return self.pooling().normalize; })
      .def_prop_ro("max_length", &TextModel::max_length)
      .def_prop_ro("task_max_length", &TextModel::task_max_length)
      .def_prop_ro("threads", &TextModel::threads)
      .def_prop_ro("precision", [](const TextModel& self) { return self.model().format(); })
      .def_prop_ro("parameters", [](const TextModel& self) { return self.model().parameters(); })
      .def_prop_ro("labels", [](const TextModel& self) { return self.model().config().labels; })
      .def_prop_ro(
          "config", [](const TextModel& self) { return self.model().config().to_json(); }, "as JSON");
}

void bind_hub(nb::module_& m) {
  m.def(
      "find_model", [](const std::string& name) { return find_model(name).string(); }, nb::arg("name"));
  m.def("embedded_models", &embedded_models);
  m.def(
      "describe",
      [](const std::string& files) { return without_gil([&] { return to_json(describe(files)); }); },
      nb::arg("files"), "What a model is, as JSON.");
  m.def(
      "cached_models",
      [] {
        std::vector<std::string> all;
        for (const CachedModel& one : cached_models()) all.push_back(to_json(one));
        return all;
      },
      "The models in the hub's cache, as JSON.");
  m.def(
      "pull",
      [](const std::string& name, nb::object progress) {
        const nb::handle tell = progress;
        const PullOptions options{.progress = [tell](const PullProgress& p) {
          nb::gil_scoped_acquire gil;
          check_signals();
          if (!tell.is_none()) tell(p.done, p.total);
          return true;
        }};
        return without_gil([&] { return pull(name, options).path.string(); });
      },
      nb::arg("name"), nb::arg("progress") = nb::none(), "Downloads a model; its folder.");
  m.def(
      "model_files", [](const std::string& files) { return ModelFiles(files).list(); }, nb::arg("files"),
      "Names of a model's files, also of one that is part of the program.");
  m.def(
      "read_model_file",
      [](const std::string& files, const std::string& name) -> std::optional<nb::bytes> {
        const ModelFiles model(files);
        if (!model.has(name)) return std::nullopt;
        const FileBytes file = model.read(name);
        return nb::bytes(file.bytes.data(), file.bytes.size());
      },
      nb::arg("files"), nb::arg("name"), "One of them; None where there is no such file.");
}

void bind_similarity(nb::module_& m) {
  m.def(
      "similarity",
      [](const Numbers<float, 2>& a, const Numbers<float, 2>& b) {
        if (a.shape(1) != b.shape(1)) throw nb::value_error("vectors of a and b are not equally long");
        return array_of(without_gil([&] { return similarity(matrix_of(a), matrix_of(b)); }),
                        {a.shape(0), b.shape(0)});
      },
      nb::arg("a"), nb::arg("b"), "The cosine of each row of a with each row of b.");
  m.def(
      "rank",
      [](const Numbers<float, 1>& query, const Numbers<float, 2>& rows, std::optional<size_t> top) {
        if (query.shape(0) != rows.shape(1)) throw nb::value_error("the query is not as long as the rows");
        return without_gil([&] {
          return rank({query.data(), query.shape(0)}, matrix_of(rows), top.value_or(SIZE_MAX));
        });
      },
      nb::arg("query"), nb::arg("rows"), nb::arg("top") = nb::none(),
      "The rows most like the query by their cosine, best first.");
}

}  // namespace

void bind_text_model(nb::module_& m) {
  nb::class_<TextModel> model(m, "TextModel", "A model, its tokenizer and its pooling.");
  model
      .def_static("load", &load_model, nb::arg("files"), nb::arg("threads") = 0, nb::arg("max_length") = 0,
                  nb::arg("strict") = false, nb::arg("precision") = WeightFormat::kFloat32,
                  nb::arg("warning") = nb::none())
      .def("embed", &embed_many, nb::arg("texts"), nb::arg("normalize") = nb::none(), nb::arg("prefix") = "",
           nb::arg("windows") = false, nb::arg("progress") = nb::none(),
           "(texts, dimension), and what was read of each text.")
      .def("embed_one", &embed_one, nb::arg("text"), nb::arg("normalize") = nb::none(),
           nb::arg("prefix") = "", nb::arg("windows") = false)
      .def("token_vectors", &token_vectors, nb::arg("texts"), nb::arg("normalize") = nb::none(),
           nb::arg("prefix") = "", nb::arg("progress") = nb::none())
      .def("attend", &attend, nb::arg("text"), nb::arg("pair") = nb::none(),
           nb::arg("layers") = std::vector<size_t>());
  bind_tasks(model);
  bind_handles(model);
  bind_hub(m);
  bind_similarity(m);
}

}  // namespace bertie::python
