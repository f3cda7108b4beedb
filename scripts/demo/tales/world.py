"""The state of one story: its characters and things, and its sentences so far."""

import re

from . import cast, speech, things
from .template import expand, tidy
from .words import LISTS

_SLOT = re.compile(r"\{([a-z_0-9]+)")

ELDERS = (  # relation, gender, how the child calls them
    ("mother", "f", "Mum"), ("mother", "f", "Mother"), ("father", "m", "Dad"), ("father", "m", "Papa"),
    ("grandmother", "f", "Grandma"), ("grandfather", "m", "Grandpa"), ("aunt", "f", "Auntie"),
    ("uncle", "m", "Uncle"))
STATES = {"was", "had", "could", "knew", "always", "liked", "loved", "kept", "wanted", "never", "did", "wished"}
CHILD_ADJECTIVES = ("little", "small", "young", "quiet", "cheerful", "curious", "kind", "clever", "brave", "shy")
ADULT_ADJECTIVES = ("old", "kind", "young", "busy", "cheerful", "quiet", "poor", "grumpy", "gentle", "tired")


def _may_join(told):
    """Whether another clause with the same subject can follow after 'and'."""
    return len(told) < 60 and told.endswith(".") and not any(mark in told[:-1] for mark in '.!?":') and " and " not in told


class World:
    def __init__(self, rng):
        self.rng = rng
        self.slots = {}
        self.names = set()
        self.used = set()  # words and options that occurred already
        self.paragraphs = [[]]
        self.echoes = []  # sentences for the ending that refer to the opening
        self.time = ""  # morning, afternoon, evening or night, once known
        self.dated = False  # whether the opening may name the time of day
        self.timed = False  # True once the story has come from 'once upon a time' to a certain day
        self.biome = "town"
        self.focus = ""  # the slot that a pronoun refers to now

    # Random choices.

    def pick(self, options):
        return options[int(self.rng.random() * len(options))]

    def chance(self, probability):
        return self.rng.random() < probability

    def word(self, name):
        """A word of a list, if possible one that the story has not used."""
        options = LISTS[name]
        for _ in range(4):
            option = self.pick(options)
            if option not in self.used:
                break
        self.used.add(option)
        return option

    # Slots.

    def value(self, name, attr):
        if name == "day":
            return self.day()
        item = self.slots[name]
        text = str(getattr(item, attr) if attr else item)
        return expand(text, self) if "{" in text else text

    def set(self, slot, *options):
        """Chooses one of the phrases for the whole story."""
        self.slots[slot] = expand(self.pick(options), self)
        return self.slots[slot]

    def _name(self, names):
        while True:
            name = self.pick(names)
            if name not in self.names:
                self.names.add(name)
                return name

    def _join(self, slot, character):
        for other in self.slots.values():
            if isinstance(other, cast.Character) and other.noun == character.noun:
                other.unique = character.unique = False
        self.slots[slot] = character
        return character

    def _other_gender(self):
        """A gender, mostly not the main character's, so that pronouns stay clear."""
        hero = self.slots.get("h")
        if hero is None or self.chance(0.2):
            return self.pick("fm")
        return "m" if hero.gender == "f" else "f"

    def child(self, slot="h"):
        gender = self._other_gender()
        name = self._name(cast.GIRLS if gender == "f" else cast.BOYS)
        noun = "girl" if gender == "f" else "boy"
        return self._join(slot, cast.Character(self.rng, noun, gender, name, self.pick(CHILD_ADJECTIVES)))

    def animal(self, slot="h", noun="", skill="", sizes=(1, 2, 3, 4), biome="", named=0.6, without="", gender=""):
        """An animal with the given skill or size, of the story's biome if possible."""
        if slot == "h" and not noun:
            self.biome = biome or self.pick(("wood", "wood", "wood", "wood", "farm", "farm", "pond", "savanna"))
        taken = {c.noun for c in self.slots.values() if isinstance(c, cast.Character)}

        def fits(species, home):
            return (species.noun not in taken and species.size in sizes
                    and (not skill or skill in species.skills) and without not in species.skills
                    and (species.biome == home or home == ""))

        near = {"pond": ("pond", "wood"), "wood": ("wood", "wood", "pond")}.get(self.biome, (self.biome,))
        if noun:
            species = cast.SPECIES[noun]
            if slot == "h":
                self.biome = species.biome
        else:
            options = [s for s in cast.SPECIES.values() if fits(s, self.pick(near))]
            options = options or [s for s in cast.SPECIES.values() if any(fits(s, b) for b in near)]
            if not options:
                raise LookupError("no such animal here")
            species = self.pick(options)
        gender = gender or self._other_gender()
        if species.noun in ("hen", "cow"):
            gender = "f"
        elif species.noun == "rooster":
            gender = "m"
        name = self._name(cast.ANIMAL_NAMES[gender]) if self.chance(named) else ""
        adjective = "old" if self.chance(0.12) else self.pick(species.adjectives.split("|"))
        return self._join(slot, cast.Character(self.rng, species.noun, gender, name, adjective, species))

    def adult(self, slot="h", job="", named=0.6):
        job = job or self.pick(tuple(cast.JOBS))
        gender, tools, where = cast.JOBS.get(job, ("", "", ""))
        gender = gender or self._other_gender()
        name = self._name(cast.GIRLS if gender == "f" else cast.BOYS) if self.chance(named) else ""
        character = cast.Character(self.rng, job, gender, name, self.pick(ADULT_ADJECTIVES))
        character.tools, character.home = tools, where
        return self._join(slot, character)

    def elder(self, slot="m", of="h", relations=("mother", "father", "grandmother", "grandfather")):
        """A relative of a character, called 'her mother' and so on."""
        relation, gender, call = self.pick([e for e in ELDERS if e[0] in relations])
        character = cast.Character(
            self.rng, relation, gender, f"{self.slots[of].his} {relation}", prefix="own")
        character.call = call
        return self._join(slot, character)

    def being(self, slot, noun, gender="", name="", adjective=""):
        """Any other character, for example a dragon or a snowman."""
        gender = gender or self._other_gender()
        return self._join(slot, cast.Character(self.rng, noun, gender, name, adjective))

    def thing(self, slot="x", table=None, *only):
        table = table or things.TOYS
        noun = self.pick(only or tuple(table))
        adjectives, use = table[noun]
        self.slots[slot] = things.Thing(self.rng, noun, self.pick(adjectives.split("|")), use)
        return self.slots[slot]

    def place(self, slot="p", biome="", among=""):
        options = (among or things.PLACES[biome or self.biome]).split("|")
        taken = {p.noun for p in self.slots.values() if isinstance(p, things.Place)}
        self.slots[slot] = things.Place(self.pick([o for o in options if o[o.index("the "):] not in taken]))
        return self.slots[slot]

    # Telling.

    def day(self):
        """'One sunny morning,' at first, later a phrase for the same day."""
        if not self.timed:
            self.timed = True
            self.time = self.time or self.pick(("morning", "morning", "morning", "afternoon", "evening", ""))
            if not self.time:
                return self.pick(("one day,", "then, one day,", "one day,", "but one day,"))
            mood = self.pick(("", "", "", "fine ", "bright ", "cool ", "quiet ", "spring ", "summer ", "autumn "))
            return self.pick(("one ", "one ", "early one ", "late one ")[:4 if not mood else 2]) + mood + self.time + ","
        if not self.time:
            return self.pick(("that day,", "that same day,", "on that day,"))
        return f"that {self.time},"

    def t(self, *templates):
        """Tells one of the sentences. Rarely names its subject twice in a row."""
        template = self.pick(templates)
        if self.focus and template.startswith("{%s} " % self.focus) and self.chance(0.6):
            template = template.replace("{%s}" % self.focus, "{%s.he}" % self.focus, 1)
        text = tidy(expand(template, self))
        if not text:
            return
        told = self.paragraphs[-1]
        if self.focus and template.startswith("{%s.he} " % self.focus) and told and _may_join(told[-1]) and self.chance(0.35):
            state = text.split(" ")[1] in STATES
            joint = ", and " if state else self.pick((", and ", ", and ", ". Then ", ", and then "))
            told[-1] = told[-1][:-1] + joint + text[0].lower() + text[1:]
        else:
            told.append(text[0].upper() + text[1:])
        self._look_at(template)

    def maybe(self, probability, *templates):
        if self.chance(probability):
            self.t(*templates)

    def p(self):
        """Start a new paragraph."""
        if self.paragraphs[-1]:
            self.paragraphs.append([])
        self.focus = ""

    def say(self, who, text, tone="say"):
        """Lets a character speak. `tone` chooses the verbs and gestures around the words."""
        words = tidy(expand(text, self))
        self.paragraphs[-1].append(speech.spoken(self, who, words, tone))
        self.focus = who

    def _look_at(self, template):
        """Stores the subject of the last sentence, if a pronoun for it is clear."""
        seen = [s for s in _SLOT.findall(template) if isinstance(self.slots.get(s), cast.Character)]
        if not seen or template.count("{%s.his} {" % seen[0]):
            self.focus = ""
            return
        last = _SLOT.findall(template.rsplit(". ", 1)[-1])
        if last and last[0] != seen[0]:
            self.focus = ""
            return
        first = self.slots[seen[0]]
        rivals = [s for s in seen if s != seen[0] and self.slots[s].gender == first.gender]
        self.focus = "" if rivals else seen[0]

    def text(self):
        return "\n".join(" ".join(p) for p in self.paragraphs if p)
