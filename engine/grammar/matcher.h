// The state of one sequence in its grammar: which tokens may come next, and whether the text may
// end. A Matcher owns only its state; the Masks are shared by all sequences of a grammar and live
// as long as any of them. One Matcher is for one thread at a time; Matchers with the same Masks may
// be on different threads. Every accepted text can be completed, provided the vocabulary can write
// the missing bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "engine/grammar/masks.h"

namespace skald::grammar {

class Matcher {
 public:
  explicit Matcher(std::shared_ptr<Masks> masks);
  ~Matcher();
  Matcher(const Matcher&);
  Matcher& operator=(const Matcher&) = delete;

  // The tokens that may come next, including end tokens if may_end(). Valid until the next call on
  // this object.
  std::span<const uint64_t> mask();

  // Takes a token, or bytes. Returns false, and changes nothing, if the grammar does not allow
  // them. An end token is accepted if may_end(), and changes nothing.
  bool accept(int32_t token);
  bool accept(std::string_view bytes);

  // What must come next, up to `most` bytes; it may end within a character.
  std::string forced_text(size_t most) const;

  bool may_end() const;
  bool finished() const;  // only an end token may come

 private:
  SetId after(std::string_view bytes);

  std::shared_ptr<Masks> masks_;
  SetId set_;
  TokenMask mask_;  // result of the last mask() call; not copied
};

}  // namespace skald::grammar
