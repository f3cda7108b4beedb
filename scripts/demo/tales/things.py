"""Things to own and places to go, with the words to speak of them."""

TOYS = {  # noun: (adjectives, what its owner did with it)
    "kite": ("red|blue|yellow|paper|long-tailed", "flew it whenever the wind blew"),
    "ball": ("red|rubber|striped|bouncy|green", "bounced it all the way down the street"),
    "doll": ("rag|little|wooden|old|cloth", "told it every secret {h.he} knew"),
    "teddy bear": ("brown|soft|one-eyed|old|small", "never went to bed without it"),
    "drum": ("tin|red|little|round", "played it much too loudly"),
    "boat": ("toy|wooden|little|blue|paper", "sailed it in every puddle"),
    "wagon": ("red|wooden|little|squeaky", "pulled it everywhere"),
    "spinning top": ("wooden|painted|striped|little", "made it hum on the kitchen floor"),
    "whistle": ("silver|tin|wooden|little", "blew it to call the birds"),
    "puppet": ("wooden|funny|little|painted", "made it bow and dance"),
    "music box": ("little|silver|painted|old", "listened to it before bed"),
    "lantern": ("paper|little|brass|green", "lit it every evening"),
    "scarf": ("red|woolly|long|striped|blue", "wore it even in summer"),
    "hat": ("yellow|straw|floppy|blue|pointed", "wore it even at breakfast"),
    "umbrella": ("red|yellow|spotted|big|green", "hoped for rain every day"),
    "blanket": ("soft|blue|patchwork|old|yellow", "carried it from room to room"),
    "bucket": ("red|tin|little|yellow", "filled it with stones and shells"),
    "marble": ("green|glass|blue|shiny", "looked at the sun through it"),
    "toy train": ("wooden|red|little|shiny", "drove it around the legs of the table"),
    "picture book": ("big|old|thin|blue", "knew every page by heart"),
    "bell": ("brass|little|silver|shiny", "rang it at dinner time"),
    "toy rabbit": ("grey|soft|floppy|velvet", "kept it under {h.his} pillow"),
}

TREASURES = {  # things an animal can own
    "acorn": ("shiny|golden|big|round", "polished it every morning"),
    "feather": ("blue|white|long|soft", "kept it behind one ear"),
    "shell": ("pink|white|curly|smooth", "listened to it every night"),
    "button": ("red|brass|blue|shiny", "thought it was the moon's little sister"),
    "pebble": ("round|white|smooth|speckled", "told it good night every evening"),
    "bell": ("tiny|silver|brass|little", "rang it when friends came by"),
    "ribbon": ("red|blue|silky|yellow", "wore it on special days"),
    "blanket": ("leafy|mossy|soft|woolly", "could not sleep without it"),
    "lantern": ("tiny|little|tin|glass", "lit it when the moon was away"),
    "cup": ("blue|tiny|chipped|painted", "drank dew from it"),
    "spoon": ("silver|wooden|tiny|little", "used it for everything"),
    "whistle": ("wooden|reed|little|tin", "played one tune on it over and over"),
    "scarf": ("red|woolly|tiny|striped", "wore it in all kinds of weather"),
    "hat": ("straw|tiny|green|acorn-cup", "took it off only to sleep"),
}

PLACES = {
    "town": (
        "in the park|at the playground|by the river|in the market|on the hill|in the garden|at the pond|"
        "on the beach|in the square|in the meadow|by the old bridge|in the orchard|near the windmill|"
        "at the harbour|by the fountain|in the schoolyard"),
    "wood": (
        "in the clearing|by the stream|under the old oak|at the edge of the forest|in the meadow|"
        "near the brambles|at the foot of the hill|by the mossy log|at the pond|beside the waterfall|"
        "in the hazel wood|on the hill|near the blackberry bushes|by the crooked pine"),
    "pond": (
        "at the pond|by the river|among the reeds|near the little bridge|on the muddy bank|by the mill|"
        "at the bend of the stream|under the willow|in the shallow water|by the stepping stones"),
    "farm": (
        "in the barn|in the yard|by the gate|in the orchard|behind the hay cart|in the vegetable garden|"
        "at the duck pond|in the long field|near the well|under the apple tree|by the haystack"),
    "sea": (
        "at the reef|by the old shipwreck|in the seaweed forest|near the coral arch|in the quiet cove|"
        "at the edge of the deep|by the white sand|in the blue lagoon|near the striped rocks"),
    "savanna": (
        "at the water hole|under the fig tree|by the river|on the grassy plain|near the tall rocks|"
        "in the shade of the palm trees|at the edge of the jungle|by the muddy pool|on the red hill"),
    "snow": (
        "on the ice|by the frozen bay|on the snowy hill|near the blue iceberg|at the edge of the sea|"
        "in the snowdrift|by the icy rocks"),
}


class Thing:
    """An object: {x} is its noun, {x.a} and {x.the} add an adjective and an article."""

    def __init__(self, rng, noun, adjective="", use=""):
        self.rng, self.noun, self.adjective, self.use = rng, noun, adjective, use

    @property
    def full(self):
        return f"{self.adjective} {self.noun}".strip()

    @property
    def a(self):
        return f"a {self.full}"

    @property
    def the(self):
        return f"the {self.full if self.rng.random() < 0.35 else self.noun}"

    def __str__(self):
        return self.noun


class Place:
    """A place: {p.at} is 'by the river', {p.to} is 'to the river', {p} is 'the river'."""

    def __init__(self, phrase):
        self.at = phrase
        self.noun = phrase[phrase.index("the "):]
        self.to = "to " + self.noun

    def __str__(self):
        return self.noun
