// The network without a tokenizer, on padded batches as transformers has them: ids (B, n) and a mask in;
// hidden states (B, n, C), attention weights (B, H, n, n) and logits out. Bertie's own batches have no
// padding: what the mask leaves out is not computed, and is zero in what comes back.
#include <nanobind/stl/unique_ptr.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "arrays.h"
#include "bertie/error.h"
#include "bertie/model.h"
#include "calls.h"
#include "module.h"
#include "result_class.h"

namespace bertie::python {
namespace {

using Ids = Numbers<int64_t, 2>;

// The tokens of a padded batch, packed, and where each sequence begins in its row.
struct Unpadded {
  size_t rows = 0, columns = 0;
  std::vector<int32_t> ids = {}, types = {}, offsets = {0};
  std::vector<size_t> begins = {};
  std::vector<size_t> sequences = {};  // rows that have tokens at all

  bool full() const { return ids.size() == rows * columns; }
};

struct Span {
  size_t begin = 0, end = 0;
};

// Where a row's mask is 1. The ones must stand together: a hole would move the tokens behind it to other
// positions than transformers gives them.
Span span_of(const int64_t* mask, size_t columns, size_t row) {
  const auto seen = [](int64_t m) { return m != 0; };
  const int64_t* begin = std::find_if(mask, mask + columns, seen);
  const int64_t* end = std::find_if_not(begin, mask + columns, seen);
  if (std::any_of(end, mask + columns, seen))
    throw Error("row " + std::to_string(row) + " of `attention_mask` has zeros between ones",
                "padding goes before a sequence or after it", "attention_mask");
  return {size_t(begin - mask), size_t(end - mask)};
}

void check_shape(const Ids& ids, const std::optional<Ids>& other, const char* name) {
  if (other && (other->shape(0) != ids.shape(0) || other->shape(1) != ids.shape(1)))
    throw Error(std::string("`") + name + "` has not the shape of `input_ids`", {}, name);
}

Unpadded unpadded(const Ids& ids, const std::optional<Ids>& mask, const std::optional<Ids>& types) {
  check_shape(ids, mask, "attention_mask");
  check_shape(ids, types, "token_type_ids");
  Unpadded out{.rows = ids.shape(0), .columns = ids.shape(1)};
  for (size_t r = 0; r < out.rows; ++r) {
    const size_t at = r * out.columns;
    const Span span = mask ? span_of(mask->data() + at, out.columns, r) : Span{0, out.columns};
    if (span.begin == span.end) continue;
    for (size_t i = at + span.begin; i < at + span.end; ++i) {
      const int64_t id = ids.data()[i];
      if (id < 0 || id > INT32_MAX)
        throw Error("there is no token with the id " + std::to_string(id), {}, "input_ids");
      out.ids.push_back(int32_t(id));
      if (types) out.types.push_back(int32_t(types->data()[i]));
    }
    out.offsets.push_back(int32_t(out.ids.size()));
    out.begins.push_back(span.begin);
    out.sequences.push_back(r);
  }
  return out;
}

// What becomes an array of Python's when the GIL is there again.
struct Padded {
  Memory<float> numbers;
  std::vector<size_t> shape;

  Array<float> release() { return numbers.release(shape); }
};

nb::tuple release_all(std::vector<Padded>& all) {
  nb::list arrays;
  for (Padded& one : all) arrays.append(one.release());
  return nb::tuple(arrays);
}

// Numbers of each token, (T, width), into (B, n, width).
Padded padded_tokens(Matrix<const float> packed, const Unpadded& batch) {
  const size_t width = packed.cols();
  Memory<float> out(batch.rows * batch.columns * width);
  if (!batch.full()) std::fill_n(out.data(), batch.rows * batch.columns * width, 0.f);
  for (size_t s = 0; s < batch.sequences.size(); ++s) {
    float* to = out.data() + (batch.sequences[s] * batch.columns + batch.begins[s]) * width;
    for (int32_t t = batch.offsets[s]; t < batch.offsets[s + 1]; ++t, to += width)
      std::copy_n(packed.row(size_t(t)), width, to);
  }
  return {std::move(out), {batch.rows, batch.columns, width}};
}

// Numbers of each sequence into (B, width).
Padded padded_sequences(Matrix<const float> packed, const Unpadded& batch) {
  const size_t width = packed.cols();
  Memory<float> out(batch.rows * width);
  if (batch.sequences.size() < batch.rows) std::fill_n(out.data(), batch.rows * width, 0.f);
  for (size_t s = 0; s < batch.sequences.size(); ++s)
    std::copy_n(packed.row(s), width, out.data() + batch.sequences[s] * width);
  return {std::move(out), {batch.rows, width}};
}

// A layer's weights into (B, H, n, n). Heads that were pruned have zeros.
Padded padded_attention(const Output& output, size_t layer, const Config& config, const Unpadded& batch) {
  const size_t heads = config.heads, n = batch.columns;
  Memory<float> out(batch.rows * heads * n * n);
  if (!batch.full() || !config.pruned_heads.empty()) std::fill_n(out.data(), batch.rows * heads * n * n, 0.f);
  for (size_t s = 0; s < batch.sequences.size(); ++s)
    for (size_t h : config.heads_of(layer)) {
      const Matrix<const float> weights = output.attention(layer, s, h);
      const size_t begin = batch.begins[s];
      float* to = out.data() + ((batch.sequences[s] * heads + h) * n + begin) * n + begin;
      for (size_t i = 0; i < weights.rows(); ++i, to += n) std::copy_n(weights.row(i), weights.cols(), to);
    }
  return {std::move(out), {batch.rows, heads, n, n}};
}

bool of_sequences(Head head) { return head == Head::kNextSentence || head == Head::kClassify; }

// A model and the Runs that wait for a call: each call has one of its own.
class Network {
 public:
  Network(Model model, int threads) : model_(std::move(model)), threads_(threads) {}

  const Model& model() const { return model_; }

  nb::dict forward(const Ids& ids, const std::optional<Ids>& mask, const std::optional<Ids>& types,
                   std::optional<Head> head, bool hidden_states, bool attentions, bool last_hidden,
                   const std::vector<WhichHead>& heads_off) const {
    const Config& config = model_.config();
    const Unpadded batch = unpadded(ids, mask, types);
    Capture capture{.last_hidden = last_hidden || hidden_states,
                    .hidden_states = hidden_states,
                    .all_attention = attentions,
                    .head = head};
    capture.pooled = !head && model_.has_pooler();
    std::optional<Padded> last, pooled, logits;
    std::vector<Padded> states, weights;
    {
      nb::gil_scoped_release free;
      Lease run(*this);
      run->switch_off(heads_off);
      const Output& output =
          run->forward({.ids = batch.ids, .types = batch.types, .offsets = batch.offsets}, capture);
      if (last_hidden && !head) last = padded_tokens(output.last_hidden, batch);
      if (capture.pooled) pooled = padded_sequences(output.pooled, batch);
      if (head)
        logits = of_sequences(*head) ? padded_sequences(output.logits, batch)
                                     : padded_tokens(output.logits, batch);
      for (const Matrix<const float>& one : output.hidden_states) states.push_back(padded_tokens(one, batch));
      for (size_t l = 0; attentions && l < config.depth(); ++l)
        weights.push_back(padded_attention(output, l, config, batch));
    }
    nb::dict out;
    if (last) out["last_hidden_state"] = last->release();
    if (pooled) out["pooler_output"] = pooled->release();
    if (logits) out["logits"] = logits->release();
    if (hidden_states) out["hidden_states"] = release_all(states);
    if (attentions) out["attentions"] = release_all(weights);
    return out;
  }

  // The likeliest next token of each row again and again; a row that has ended with `eos` is padded.
  Array<int64_t> generate(const Ids& ids, const std::optional<Ids>& mask, size_t most, int64_t eos,
                          int64_t pad) const {
    const Unpadded batch = unpadded(ids, mask, {});
    if (batch.sequences.size() != batch.rows)
      throw Error("a row has no tokens to go on from", {}, "attention_mask");
    std::vector<std::vector<int32_t>> made(batch.rows);
    {
      Lease run(*this);
      nb::gil_scoped_release free;
      go_on(*run.operator->(), batch, most, eos, made);
    }
    size_t longest = 0;
    for (const auto& row : made) longest = std::max(longest, row.size());
    const size_t columns = batch.columns + longest;
    Memory<int64_t> out(batch.rows * columns);
    for (size_t r = 0; r < batch.rows; ++r) {
      int64_t* to = std::copy_n(ids.data() + r * batch.columns, batch.columns, out.data() + r * columns);
      to = std::copy(made[r].begin(), made[r].end(), to);
      std::fill(to, out.data() + (r + 1) * columns, pad);
    }
    return out.release({batch.rows, columns});
  }

 private:
  void go_on(Run& run, const Unpadded& batch, size_t most, int64_t eos,
             std::vector<std::vector<int32_t>>& made) const {
    Cache cache(model_, batch.rows);
    run.switch_off({});
    std::vector<int32_t> ids = batch.ids, offsets = batch.offsets;
    for (size_t step = 0; step < most; ++step) {
      std::vector<int32_t> last(batch.rows);
      for (size_t r = 0; r < batch.rows; ++r) last[r] = offsets[r + 1] - 1;
      const Output& output =
          run.forward({.ids = ids, .offsets = offsets},
                      {.last_hidden = false, .head = Head::kCausalLm, .rows = last}, cache);
      ids.clear();
      bool ended = true;
      for (size_t r = 0; r < batch.rows; ++r) {
        const std::span<const float> logits = output.logits[r];
        const auto best = int32_t(std::max_element(logits.begin(), logits.end()) - logits.begin());
        const bool over = !made[r].empty() && made[r].back() == eos;
        if (!over) made[r].push_back(best);
        ended &= made[r].back() == eos;
        ids.push_back(
            best);  // a row that has ended goes on unheard, so that the cache's sequences stay as they are
        offsets[r + 1] = int32_t(r + 1);
      }
      if (ended) return;
      nb::gil_scoped_acquire gil;
      check_signals();
    }
  }

  // A Run of the network's, for as long as this lives.
  class Lease {
   public:
    explicit Lease(const Network& network) : network_(network) {
      std::lock_guard lock(network.mutex_);
      if (!network.idle_.empty()) {
        run_ = std::move(network.idle_.back());
        network.idle_.pop_back();
      }
      if (!run_) run_ = std::make_unique<Run>(network.model_, network.threads_);
    }
    ~Lease() {
      std::lock_guard lock(network_.mutex_);
      network_.idle_.push_back(std::move(run_));
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Run* operator->() { return run_.get(); }

   private:
    const Network& network_;
    std::unique_ptr<Run> run_;
  };

  Model model_;
  int threads_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Run>> idle_;
};

}  // namespace

void bind_network(nb::module_& m) {
  m.def(
      "config_of", [](const std::string& files) { return Config::load(files).to_json(); }, nb::arg("files"),
      "A model's config.json as the library understands it.");
  nb::class_<Network>(m, "Network", "A model without its tokenizer, on padded batches.")
      .def_static(
          "load",
          [](const std::string& files, int threads, WeightFormat precision) {
            nb::gil_scoped_release free;
            return std::make_unique<Network>(Model::load(files, {.format = precision}), threads);
          },
          nb::arg("files"), nb::arg("threads") = 0, nb::arg("precision") = WeightFormat::kFloat32)
      .def("forward", &Network::forward, nb::arg("ids"), nb::arg("mask") = nb::none(),
           nb::arg("types") = nb::none(), nb::arg("head") = nb::none(), nb::arg("hidden_states") = false,
           nb::arg("attentions") = false, nb::arg("last_hidden") = true,
           nb::arg("heads_off") = std::vector<WhichHead>(),
           nb::sig("def forward(self, ids: numpy.typing.ArrayLike, mask: numpy.typing.ArrayLike | None = "
                   "None, types: numpy.typing.ArrayLike | None = None, head: str | None = None, "
                   "hidden_states: bool = False, attentions: bool = False, last_hidden: bool = True, "
                   "heads_off: collections.abc.Sequence[tuple[int, int]] = []) -> dict[str, typing.Any]"))
      .def("generate", &Network::generate, nb::arg("ids"), nb::arg("mask") = nb::none(), nb::arg("most") = 20,
           nb::arg("eos") = -1, nb::arg("pad") = 0)
      .def(
          "has", [](const Network& self, Head head) { return self.model().has(head); }, nb::arg("head"))
      .def_prop_ro("has_pooler", [](const Network& self) { return self.model().has_pooler(); })
      .def_prop_ro("parameters", [](const Network& self) { return self.model().parameters(); })
      .def_prop_ro("max_tokens", [](const Network& self) { return self.model().config().max_tokens(); })
      .def_prop_ro(
          "config", [](const Network& self) { return self.model().config().to_json(); }, "as JSON")
      .def(
          "save",
          [](const Network& self, const std::filesystem::path& folder, Precision precision) {
            nb::gil_scoped_release free;
            self.model().save(folder, precision);
          },
          nb::arg("folder"), nb::arg("precision") = Precision::kFloat32);
}

}  // namespace bertie::python
