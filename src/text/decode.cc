// Ids back to text, as the reference's WordPiece decoder writes it.
#include "text/tokenizer_state.h"

namespace bertie {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

// Spaces that English does not write. Applied to each token with the space before it, in this order.
void clean_up(std::string& token) {
  static constexpr std::string_view kRules[][2] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},    {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
  };
  for (auto& [from, to] : kRules) replace_all(token, from, to);
}

}  // namespace

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string out, piece;
  bool first = true;
  for (int32_t id : ids) {
    if (id < 0 || !state_->pieces.vocabulary().has(size_t(id)) || (skip_special && is_special(id))) continue;
    std::string_view token = this->token(id);
    bool continues = !first && state_->decoder && token.starts_with(state_->decoder_prefix);
    piece.clear();
    if (continues)
      token.remove_prefix(state_->decoder_prefix.size());
    else if (!first)
      piece += ' ';
    piece += token;
    if (state_->decoder && state_->cleanup) clean_up(piece);
    out += piece;
    first = false;
  }
  return out;
}

}  // namespace bertie
