// The results of tasks as Python classes.
#include "bertie/results.h"

#include "arrays.h"
#include "bertie/atlas.h"
#include "bertie/draw.h"
#include "bertie/explain.h"
#include "bertie/heads.h"
#include "bertie/senses.h"
#include "bertie/similarity.h"
#include "module.h"
#include "result_class.h"

namespace bertie::python {

nb::object fields_of(nb::handle self) { return self.type().attr("_fields"); }

nb::object item_of(nb::handle self, nb::handle key) {
  if (!nb::cast<bool>(fields_of(self).attr("__contains__")(key))) {
    PyErr_SetObject(PyExc_KeyError, key.ptr());
    throw nb::python_error();
  }
  return nb::getattr(self, key);
}

nb::tuple values_of(nb::handle self) {
  nb::list values;
  for (nb::handle field : fields_of(self)) values.append(nb::getattr(self, field));
  return nb::tuple(values);
}

nb::str repr_of(nb::handle self) {
  nb::list parts;
  for (nb::handle field : fields_of(self))
    parts.append(nb::str("{}={!r}").attr("format")(field, nb::getattr(self, field)));
  return nb::str(
      nb::str("{}({})").attr("format")(self.type().attr("__name__"), nb::str(", ").attr("join")(parts)));
}

namespace {

void bind_attention(nb::module_& m) {
  nb::class_<Attention> attention(m, "Attention", "Attention weights of a text or pair: who looks at whom.");
  attention.def_ro("tokens", &Attention::tokens)
      .def_ro("encoding", &Attention::encoding, "the tokens' ids and places")
      .def_ro("layers", &Attention::layers, "of the model")
      .def_ro("heads", &Attention::heads, "of a layer")
      .def_ro("kept", &Attention::kept, "layers whose weights are here, from 0")
      .def_prop_ro(
          "weights",
          [](nb::handle self) {
            const auto& a = nb::cast<const Attention&>(self);
            return view_of(self, a.weights.data(), {a.kept.size(), a.heads, a.n(), a.n()});
          },
          "(kept layers, heads, tokens, tokens): rows look, columns are looked at")
      .def(
          "at",
          [](nb::handle self, size_t layer, size_t head) {
            const auto& a = nb::cast<const Attention&>(self);
            return view_of(self, a.at(layer, head).data(), {a.n(), a.n()});
          },
          nb::arg("layer"), nb::arg("head"), "The weights of a head, both counted from 0.")
      .def("__len__", [](const Attention& a) { return a.n(); })
      .def("__repr__",
           [](const Attention& a) {
             return nb::str(nb::str("Attention({} tokens, {} layers of {}, {} heads)")
                                .attr("format")(a.n(), a.kept.size(), a.layers, a.heads));
           })
      .def(
          "rollout",
          [](const Attention& a, size_t layers) {
            Grid grid = rollout(a, layers);
            return array_of(std::move(grid.values), {grid.rows, grid.cols});
          },
          nb::arg("layers") = 0,
          "How much of each token is in each other one after so many layers (0: all), as far as attention "
          "says.")
      .def(
          "svg",
          [](const Attention& a, std::optional<size_t> layer, std::optional<size_t> head) {
            return attention_svg(a, {layer, head});
          },
          nb::arg("layer") = nb::none(), nb::arg("head") = nb::none(),
          "A picture of all heads, of a layer's, or of one (from 0).")
      .def(
          "png",
          [](const Attention& a, std::optional<size_t> layer, std::optional<size_t> head) {
            const std::string png = attention_png(a, {layer, head});
            return nb::bytes(png.data(), png.size());
          },
          nb::arg("layer") = nb::none(), nb::arg("head") = nb::none())
      .def(
          "html",
          [](const Attention& a, const std::string& model, const std::string& text,
             const std::optional<std::string>& pair) {
            return attention_html(a, {.model = model, .text = text, .pair = pair});
          },
          nb::arg("model") = "", nb::arg("text") = "", nb::arg("pair") = nb::none(),
          "A page with these weights in it, which asks for nothing over any network.");

  result_class(m, "HeadSummary", "What a head does, in means over the tokens that look.",
               Field{"entropy", &HeadSummary::entropy}, Field{"distance", &HeadSummary::distance},
               Field{"cls", &HeadSummary::cls}, Field{"sep", &HeadSummary::sep},
               Field{"previous", &HeadSummary::previous}, Field{"next", &HeadSummary::next},
               Field{"self", &HeadSummary::self});
  attention.def(
      "summary", [](const Attention& a, size_t layer, size_t head) { return atlas(a).at(layer, head); },
      nb::arg("layer"), nb::arg("head"), "What a head does, in numbers.");
}

void bind_senses(nb::module_& m) {
  result_class(m, "SensePlace", "Where a word stands.", Field{"text", &Senses::Place::text},
               Field{"offset", &Senses::Place::offset}, Field{"word", &Senses::Place::word});
  nb::class_<Senses>(m, "Senses", "A word's vector in each of several texts, layer by layer.")
      .def_ro("places", &Senses::places)
      .def_ro("layers", &Senses::layers)
      .def_prop_ro(
          "vectors",
          [](nb::handle self) {
            const auto& s = nb::cast<const Senses&>(self);
            return view_of(self, s.vectors.data(), {s.layers + 1, s.places.size(), s.dimension});
          },
          "(layers + 1, places, dimension): those of the embeddings, then after each layer")
      .def(
          "cosines",
          [](const Senses& s, size_t layer) {
            return array_of(s.cosines(layer), {s.places.size(), s.places.size()});
          },
          nb::arg("layer"))
      .def("clearest_layer", &Senses::clearest_layer)
      .def(
          "clusters",
          [](const Senses& s, std::optional<size_t> layer) {
            return s.clusters(layer.value_or(s.clearest_layer()));
          },
          nb::arg("layer") = nb::none(), "A group for each place; without a layer, at the clearest one.")
      .def("silhouette", &Senses::silhouette, nb::arg("layer"), nb::arg("groups"))
      .def(
          "plane",
          [](const Senses& s, size_t layer) {
            return array_of(s.plane(layer), {s.places.size(), 2});
          },
          nb::arg("layer"), "(places, 2): the two directions in which the vectors differ most")
      .def("__len__", [](const Senses& s) { return s.places.size(); })
      .def("__repr__", [](const Senses& s) {
        return nb::str(nb::str("Senses({} places, {} layers)").attr("format")(s.places.size(), s.layers));
      });
}

}  // namespace

void bind_results(nb::module_& m) {
  result_class(m, "EmbeddedRow", "What was read of a text for its vector.",
               Field{"tokens", &EmbeddedRow::tokens}, Field{"truncated", &EmbeddedRow::truncated},
               Field{"windows", &EmbeddedRow::windows});
  result_class(m, "Fill", "What may stand at a mask.", Field{"id", &Fill::id}, Field{"token", &Fill::token},
               Field{"sequence", &Fill::sequence}, Field{"score", &Fill::score});
  result_class(m, "MaskFilling", "For each mask of a text the likeliest tokens, best first.",
               Field{"masks", &MaskFilling::masks}, Field{"tokens", &MaskFilling::tokens},
               Field{"truncated", &MaskFilling::truncated});
  result_class(m, "NextSentence", "How likely one text follows the other.",
               Field{"is_next", &NextSentence::is_next}, Field{"tokens", &NextSentence::tokens},
               Field{"truncated", &NextSentence::truncated});
  result_class(m, "TokenScore", "How likely a token is where it stands. Logarithms are natural.",
               Field{"id", &TokenScore::id}, Field{"token", &TokenScore::token},
               Field{"offset", &TokenScore::offset}, Field{"word", &TokenScore::word},
               Field{"log_probability", &TokenScore::log_probability},
               Field{"likeliest_id", &TokenScore::likeliest_id}, Field{"likeliest", &TokenScore::likeliest},
               Field{"likeliest_log_probability", &TokenScore::likeliest_log_probability});
  result_class(m, "TextScore", "How likely a text is, token by token.", Field{"scores", &TextScore::scores},
               Field{"tokens", &TextScore::tokens}, Field{"truncated", &TextScore::truncated})
      .def_prop_ro("log_probability", &TextScore::log_probability, "the sum over tokens")
      .def_prop_ro("perplexity", &TextScore::perplexity,
                   "exp of minus the mean; NaN of a text without tokens");
  result_class(m, "Scored", "A label and its score.", Field{"label", &Scored::label},
               Field{"score", &Scored::score});
  result_class(m, "Classification", "All labels of a text or pair, best first.",
               Field{"labels", &Classification::labels}, Field{"tokens", &Classification::tokens},
               Field{"truncated", &Classification::truncated})
      .def_prop_ro(
          "label", [](const Classification& c) { return c.labels.at(0).label; }, "the best one")
      .def_prop_ro(
          "score", [](const Classification& c) { return c.labels.at(0).score; }, "of the best one");
  result_class(m, "Entity", "One entity of a text, or one token of it.", Field{"label", &Entity::label},
               Field{"score", &Entity::score}, Field{"text", &Entity::text}, Field{"word", &Entity::word},
               Field{"offset", &Entity::offset}, Field{"first_token", &Entity::first_token},
               Field{"tokens", &Entity::tokens});
  result_class(m, "Tagging", "The entities of a text, in its order.", Field{"entities", &Tagging::entities},
               Field{"windows", &Tagging::windows});
  result_class(m, "Answer", "A piece of the context; empty: there is no answer in it.",
               Field{"text", &Answer::text}, Field{"score", &Answer::score},
               Field{"offset", &Answer::offset});
  result_class(m, "Answering", "Answers to a question, best first.", Field{"answers", &Answering::answers},
               Field{"windows", &Answering::windows},
               Field{"question_truncated", &Answering::question_truncated})
      .def_prop_ro(
          "text", [](const Answering& a) { return a.answers.empty() ? "" : a.answers[0].text; },
          "of the best one")
      .def_prop_ro(
          "score", [](const Answering& a) { return a.answers.empty() ? 0 : a.answers[0].score; },
          "of the best one");
  result_class(m, "Generation", "A text that goes on from a prompt.", Field{"ids", &Generation::ids},
               Field{"text", &Generation::text}, Field{"finish_reason", &Generation::finish_reason},
               Field{"prompt_tokens", &Generation::prompt_tokens},
               Field{"prompt_truncated", &Generation::prompt_truncated});
  result_class(m, "Ranked", "A place in a ranking: which one, and its score.", Field{"index", &Ranked::index},
               Field{"score", &Ranked::score});
  bind_attention(m);
  bind_senses(m);
}

}  // namespace bertie::python
