#pragma once
// A trie of pieces as a double array: the child of node s under byte b is unit base(s) ^ b, if the `parent`
// of that unit is s. A step reads one unit.
//
// Const after building; any number of threads may use it.
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

namespace bertie::text {

struct ScoredPiece {
  std::string_view text;
  double score;
  int32_t id;
};

class PieceTrie {
 public:
  static constexpr uint32_t kRoot = 0;
  static constexpr double kNoPiece = -std::numeric_limits<double>::infinity();

  PieceTrie() = default;
  // Of pieces with the same text the last one is kept. Empty ones are never found.
  explicit PieceTrie(std::vector<ScoredPiece> pieces);

  // Moves `node` to its child under `byte`; false if there is none.
  bool step(uint32_t& node, uint8_t byte) const {
    uint32_t next = units_[node].base ^ byte;
    if (units_[next].parent != node) return false;
    node = next;
    return true;
  }
  // The score of the piece that ends at this node; kNoPiece if none does.
  double score(uint32_t node) const { return units_[node].score; }
  int32_t id(uint32_t node) const { return ids_[node]; }
  // -1 if there is no such piece.
  int32_t find(std::string_view text) const;

 private:
  static constexpr uint32_t kFree = UINT32_MAX, kNoParent = UINT32_MAX - 1;
  static constexpr uint32_t kBlock = 256;  // base ^ byte stays in the block of base
  struct Unit {
    uint32_t base = 0, parent = kFree;
    double score = kNoPiece;
  };
  uint32_t find_base(const std::vector<uint8_t>& labels);
  void take(uint32_t unit, uint32_t parent);
  void add_block();

  std::vector<Unit> units_;
  std::vector<int32_t> ids_;
  // While building: the blocks that have free units, and the number of free units by block.
  std::vector<uint32_t> open_, free_;
};

}  // namespace bertie::text
