"""Spoken words, with the phrases that introduce and follow them."""

from .cast import VOICES

VERBS = {
    "say": ("said", "said", "said", "answered"),
    "ask": ("asked", "asked", "wondered"),
    "glad": ("said", "laughed", "cried", "sang out"),
    "sad": ("said", "sighed", "sniffed", "whispered"),
    "soft": ("whispered", "murmured", "said"),
    "shout": ("cried", "shouted", "called"),
    "kind": ("said", "said", "replied"),
    "cross": ("grumbled", "snapped", "muttered", "said"),
}
ADVERBS = {
    "say": ("",),
    "ask": ("", "", "", "gently", "quietly"),
    "glad": ("", "happily", "with a smile", "cheerfully"),
    "sad": ("", "sadly", "in a small voice", "quietly", "with a sigh"),
    "soft": ("softly", "gently", "quietly"),
    "shout": ("", "loudly", "at the top of {his} voice"),
    "kind": ("", "kindly", "gently", "warmly", "with a smile"),
    "cross": ("crossly", "with a frown", "grumpily"),
}
GESTURES = {
    "say": ("nodded", "nodded slowly", "thought for a moment", "looked up", "shrugged"),
    "ask": ("looked up", "tilted {his} head", "came closer", "stopped", "blinked"),
    "glad": ("smiled", "jumped up and down", "laughed", "beamed", "clapped", "danced in a circle"),
    "sad": ("sighed", "hung {his} head", "looked at the ground", "sniffed", "wiped away a tear"),
    "soft": ("leaned closer", "spoke very softly", "lowered {his} voice"),
    "shout": ("jumped up", "waved", "gasped", "ran closer"),
    "kind": ("smiled", "nodded kindly", "smiled gently", "chuckled"),
    "cross": ("frowned", "folded {his} arms", "stamped one foot", "shook {his} head", "scowled"),
}
TAILS = {  # what a speaker does while speaking
    "say": ("and nodded", "after a moment", "and looked around", "without turning round"),
    "ask": ("and looked up", "and came a step closer", "after a moment", "and waited"),
    "glad": ("and laughed", "and jumped for joy", "with shining eyes", "and spun around"),
    "sad": ("and looked away", "and hung {his} head", "with a trembling lip", "and sat down"),
    "soft": ("and looked down", "so softly that it could hardly be heard", "after a long silence", "and came closer"),
    "shout": ("and ran closer", "and jumped up", "as loudly as {he} could", "out of breath"),
    "kind": ("and smiled", "and sat down too", "after a little thought"),
    "cross": ("and turned away", "and frowned", "with a scowl", "and stamped"),
}
NO_HANDS = {"clapped": "laughed", "folded {his} arms": "frowned", "stamped one foot": "frowned",
            "waved": "gasped", "ran closer": "came closer"}


def spoken(world, who, words, tone):
    """Writes that `who` says the words, in one of several ways."""
    speaker = world.slots[who]
    name = speaker.ref
    pronoun = world.focus == who and world.chance(0.65)
    subject = speaker.he if pronoun else name
    voice = VOICES.get(speaker.noun) if speaker.species and world.chance(0.22) else None
    verb = voice or world.pick(VERBS[tone])
    shape = world.rng.random()
    first, rest = _split(words)
    cut = shape < 0.3 and rest
    if (first if cut else words).endswith("?"):
        verb = "whispered" if tone == "soft" else "asked"
    elif verb in ("asked", "wondered"):
        verb = "said"
    adverb = ""
    if verb in ("said", "asked", "replied") and world.chance(0.4):
        adverb = " " + world.pick(ADVERBS[tone]).format(his=speaker.his)
    adverb = adverb.rstrip()
    if not adverb and world.chance(0.22):
        adverb = " " + world.pick(TAILS[tone]).format(his=speaker.his, he=speaker.he)
    tag = f"{subject} {verb}{adverb}" if pronoun or world.chance(0.25) else f"{verb} {name}{adverb}"

    if cut:
        return f'"{_comma(first)}" {tag}. "{rest}"'
    if shape < 0.48 and " and " not in adverb:
        return f'{_upper(subject)} {verb}{adverb}, "{words}"'
    if shape < 0.62:
        gesture = world.pick(GESTURES[tone])
        if speaker.species:
            gesture = NO_HANDS.get(gesture, gesture)
        return f'{_upper(subject)} {gesture.format(his=speaker.his)}. "{words}"'
    return f'"{_comma(words)}" {tag}.'


def _split(words):
    """The first sentence and the rest."""
    for i, mark in enumerate(words[:-1]):
        if mark in ".!?" and words[i + 1] == " ":
            return words[:i + 1], words[i + 2:]
    return words, ""


def _comma(words):
    return words[:-1] + "," if words.endswith(".") else words


def _upper(text):
    return text[0].upper() + text[1:]
