#pragma once
// Text in, vectors and attention out: a model, its tokenizer and its pooling, loaded together.
//
//   auto encoder = bertie::Encoder::load("all-MiniLM-L6-v2");
//   std::vector<float> v = encoder.embed("The bank deposited the money near the river bank.");
//   bertie::Attention a = encoder.attend("You found me");
//   float w = a.at(layer, head)(from, to);
//
// An Encoder belongs to one thread at a time. A copy shares the weights and has a workspace of its own.
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/export.h"
#include "bertie/model.h"
#include "bertie/tokenizer.h"
#include "bertie/view.h"

namespace bertie {

// How tokens become one vector, as a sentence-transformers directory says in modules.json.
struct Pooling {
  // Several are concatenated, in sentence-transformers' order: cls, max, mean, mean_sqrt_length.
  bool cls = false, mean = true, max = false, mean_sqrt_length = false;
  bool normalize = false;  // to length 1, at the end
};

// Every layer's and head's weights for one text: (layers, heads, n, n).
struct BERTIE_API Attention {
  std::vector<std::string> tokens;  // n of them, [CLS] and [SEP] included
  Encoding encoding;                // their ids and places in the text
  size_t layers = 0, heads = 0;
  std::vector<float> weights;  // row-major

  size_t n() const { return tokens.size(); }
  // Rows look, columns are looked at; each row sums to 1.
  Matrix<const float> at(size_t layer, size_t head) const;
};

class BERTIE_API Encoder {
 public:
  // A directory in the Hugging Face or sentence-transformers layout. threads 0: one for every core.
  static Encoder load(const std::filesystem::path& directory, int threads = 0);
  Encoder(const Encoder& other);
  Encoder(Encoder&&) noexcept;
  Encoder& operator=(Encoder other) noexcept;
  ~Encoder();

  // The text's vector of dimension() numbers. A text longer than max_length() tokens is cut there, as
  // sentence-transformers does; `truncated`, if given, says whether it was.
  std::vector<float> embed(std::string_view text, bool* truncated = nullptr);
  // Many at once, one row each, into `out` (texts.size(), dimension()). Work is grouped by length and goes
  // in batches, so thousands of texts at once are welcome. Returns how many were cut.
  size_t embed(std::span<const std::string_view> texts, Matrix<float> out);
  // All attention weights for a text, or for a pair of texts. Throws Error if it is too long for the model.
  Attention attend(std::string_view text);
  Attention attend(std::string_view a, std::string_view b);

  size_t dimension() const;
  size_t max_length() const;           // tokens, [CLS] and [SEP] included
  void set_max_length(size_t tokens);  // Error if the model has fewer positions
  const Pooling& pooling() const;
  const Tokenizer& tokenizer() const;
  const Model& model() const;
  int threads() const;

 private:
  struct Shared;
  struct State;
  explicit Encoder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace bertie
