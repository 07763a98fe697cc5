#pragma once
// A word in several sentences: its vector in each, layer by layer. A static vector is the same everywhere; a
// contextual one tells the bank of the river from the bank with the money.
//
//   bertie::Senses bank = bertie::senses(model, "bank", {"The river bank.", "The bank lent me money."});
//   bank.cosine(12, 0, 1);  // after layer 12, of the first place and the second
//   bank.clusters(12);      // which sense each place has
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/export.h"
#include "bertie/text_model.h"

namespace bertie {

struct BERTIE_API Senses {
  // Where the word stands.
  struct Place {
    size_t text = 0;   // which one, from 0
    Offset offset;     // in it
    std::string word;  // as it is written there: "banks"
  };

  std::vector<Place> places;  // n, in the order of the texts
  size_t layers = 0;          // of the model; vectors are those after 0 (the embeddings) to `layers`
  size_t dimension = 0;
  std::vector<float> vectors;  // (layers + 1, n, dimension): the mean over the word's tokens

  Matrix<const float> at(size_t layer) const;            // (n, dimension)
  std::vector<float> cosines(size_t layer) const;        // (n, n), row-major
  float cosine(size_t layer, size_t i, size_t j) const;  // of two places
  // The layer at which clusters are most distinct; `layers` where there are fewer than three places.
  size_t clearest_layer() const;
  // A group for each place, numbered in the order they come: places are joined by the mean cosine between
  // groups, and as many groups are kept as are the most distinct (by their silhouette), at least two: whether
  // they are senses the cosines between them say.
  std::vector<size_t> clusters(size_t layer) const;
  // How distinct these groups are: the mean silhouette over cosines, from -1 to 1.
  double silhouette(size_t layer, const std::vector<size_t>& groups) const;
  // (n, 2): the two directions in which the vectors differ most.
  std::vector<float> plane(size_t layer) const;
};

// Every place of the word in the texts, in small letters or capitals. In a text that does not have it, the same
// word with other accents counts ("naive" for "naïve"), and where that is not, the word with an English ending
// or without its own ("banks", "carried" for "carry"). Error where a text has none, or is too long for the model.
// What follows from the vectors takes time in the cube of the places; more than `most_places` are an Error.
BERTIE_API Senses senses(const TextModel& model, std::string_view word, const Texts& texts,
                         size_t most_places = SIZE_MAX);
BERTIE_API Senses senses(const TextModel& model, std::string_view word, TextList texts);
// Where the word stands in one text, as senses() looks for it; empty: nowhere.
BERTIE_API std::vector<Offset> places_of_word(std::string_view text, std::string_view word);

}  // namespace bertie
