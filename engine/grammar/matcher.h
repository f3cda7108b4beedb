// A text that is being written by a grammar: what may come next, and whether it may end. Owns its
// place alone; the Masks are shared by the texts of one grammar and live as long as any of them.
// One thread at a time for one Matcher; those of the same Masks may be on different threads. What
// has been accepted always has a way to an end, as far as the vocabulary can write its bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "engine/grammar/masks.h"

namespace skald::grammar {

class Matcher {
 public:
  explicit Matcher(std::shared_ptr<Masks> masks);
  ~Matcher();
  Matcher(const Matcher&);
  Matcher& operator=(const Matcher&) = delete;

  // The tokens that may come next; end tokens where may_end(). Valid until the next call here.
  std::span<const uint64_t> mask();

  // Takes a token, or text. False, and nothing has changed, when the grammar does not allow it. An
  // end token is taken where may_end(), and changes nothing.
  bool accept(int32_t token);
  bool accept(std::string_view bytes);

  bool may_end() const;
  bool finished() const;  // nothing but the end may come

 private:
  std::shared_ptr<Masks> masks_;
  SetId set_;
  TokenMask mask_;  // of the last mask(); copies begin without
};

}  // namespace skald::grammar
