"""Changes the wording of a finished story, so that the same plot is rarely told in the same words.

Each line is a group of phrases that can replace one another in these stories. Within a story the use
of contractions and of neighbours' names stays the same; the other phrases vary freely.
"""

import re

_GROUPS = """
began to|started to
at once|right away|straight away
nobody|no one
somebody|someone
everybody|everyone
anybody|anyone
as if|as though
a long time|a long while
thought of|thought about
for ever|forever
came back|returned
heard of it|heard about it
in a small voice|in a tiny voice|in a thin voice
an owl called far away|an owl called far off|an owl called in the distance
far off,|far away,
until|till
in the dark|in the darkness
looked around|looked about
every day|each day
every evening|each evening
every morning|each morning
every night|each night
every year|each year
was afraid|was scared|was frightened
so afraid|so scared|so frightened
be afraid|be scared
afraid of|scared of|frightened of
replied|answered
told of|told about
a hundred questions|a thousand questions|a great many questions
near the|close to the|not far from the
by the river|beside the river
by the stream|beside the stream
by the fire|beside the fire|near the fire
by the well|beside the well
by the gate|beside the gate
under the|beneath the|underneath the
looked at each other|looked at one another
looked at the|gazed at the
very softly|very gently|very quietly
very slowly|ever so slowly
worked together|worked side by side
the next day|the following day|the day after
the next morning|the following morning
fast asleep|sound asleep
a little way off|not far away
great storm|terrible storm|wild storm
strange sound|strange noise|curious sound
tiny voice|thin little voice|small voice
deep breath|long breath
shivering|trembling
never forgot|always remembered
a cold wind|an icy wind|a sharp wind
beautiful|lovely
wonderful|marvellous
and that was the end of the matter|and there was no more to say|and so it was settled
all the way home|the whole way home
laughed so hard that|laughed so much that
for a moment|for a second|for a little while
did not move|would not move
in one afternoon|in a single afternoon
asked for nothing|did not ask for anything
without a word|without saying a word|in silence
step by step|one step at a time
one by one|one after the other|one after another
high above|far above
at the edge of|on the edge of
over and over|again and again
quiet for a moment|silent for a moment|still for a moment
day and night|by day and by night
in her hand|between her fingers
not a sound|no sound at all
looked back|glanced back|turned to look
held her breath|did not dare to breathe
held his breath|did not dare to breathe
even though|although
right up to|straight up to
set off|started out
at first|to begin with
the best of all|the very best of all
shook her head|only shook her head
shook his head|only shook his head
curled up|rolled up|snuggled down
fell asleep|dozed off|drifted off to sleep
kind word|friendly word|gentle word
"""
_SENTENCE_STARTS = """
And then|Then|Then|Then
Soon|Before long
So|And so
In the end|At last|Finally
Everyone|Everybody
That night|Later that night|At the end of that day
After a while|After some time|A little later
Just then|At that moment|In that very moment
There was no one|There was nobody
For a long time|For quite a while
Everything was|All was
In the morning|When morning came|At sunrise
In the evening|When evening came|Towards evening
By evening|By the end of the day|Before the sun was down
Slowly|Very slowly|Little by little
"""
_ADJECTIVES = """
door: wooden|heavy|green|front
window: little|round|open
river: slow|wide|quiet|cold
garden: little|green|wild
hill: steep|green|windy
path: narrow|stony|winding|sandy
stream: clear|cold|busy|shallow
table: long|old|wooden|round
fire: warm|bright|crackling
lamp: old|little|brass
moon: silver|white|cool
snow: deep|fresh|soft|white
rain: cold|grey|steady
basket: old|big|wicker
gate: old|iron|wooden|rusty
grass: tall|wet|soft|green
road: long|dusty|winding
leaves: rustling|bright|wet
stove: warm|old|iron
candle: little|thin|white
water: cold|clear|dark|still
sun: warm|bright|golden|low
sky: wide|open|high
sea: wide|dark|cold|grey
square: busy|sunny|wide
harbour: busy|little|quiet
market: busy|crowded|noisy
park: quiet|sunny|green
barn: old|dark|warm
forest: old|dark|quiet|green
meadow: sunny|green|wide
kitchen: warm|small|bright
bushes: thick|green|prickly
roof: mossy|low|red
floor: wooden|cold|bare
people: good|puzzled|busy
reeds: tall|rustling|whispering
rocks: grey|smooth|mossy
bank: muddy|grassy|soft
"""
_CONTRACTIONS = (("did not", "didn't"), ("could not", "couldn't"), ("was not", "wasn't"), ("would not", "wouldn't"),
                 ("had not", "hadn't"), ("were not", "weren't"))
_WOMEN = ("Mrs Finch", "Mrs Brand", "Mrs Hill", "Miss Pym", "Mrs Oak", "Mrs Larch", "Mrs Bell", "Mrs Thorn", "Miss Reed")
_MEN = ("Mr Brand", "Mr Pike", "Mr Hollow", "Mr Stone", "Mr Wick", "Mr Gray", "Mr Barrow", "Mr Moon", "Mr Crane")


def _table(lines):
    table = {}
    for line in lines.strip().splitlines():
        phrases = tuple(line.split("|"))
        for phrase in phrases:
            table.setdefault(phrase, phrases)
    return table


def _pattern(table, before):
    alternatives = "|".join(re.escape(p) for p in sorted(table, key=len, reverse=True))
    return re.compile(f"{before}({alternatives})(?![a-z])")


_NOUNS = {noun: words.split("|") for noun, words in (line.split(": ") for line in _ADJECTIVES.strip().splitlines())}
_NOUN_PATTERN = re.compile(rf"\b([Tt]he) ({'|'.join(_NOUNS)})\b")
_INSIDE, _STARTS = _table(_GROUPS), _table(_SENTENCE_STARTS)
_INSIDE_PATTERN = _pattern(_INSIDE, r"(?<![A-Za-z])")
_START_PATTERN = _pattern(_STARTS, r"(?<=[.!] )")


def _describe(rng):
    """Gives a noun an adjective at its first mention, or not at all."""
    met = set()

    def replace(match):
        the, noun = match.groups()
        if noun in met:
            return match[0]
        met.add(noun)
        return f"{the} {rng.choice(_NOUNS[noun])} {noun}" if rng.random() < 0.45 else match[0]
    return replace


def vary(rng, text):
    """Replaces some of a story's phrases."""
    def other(table):
        return lambda match: rng.choice(table[match[1]])

    text = _INSIDE_PATTERN.sub(other(_INSIDE), text)
    text = _START_PATTERN.sub(other(_STARTS), text)
    text = _NOUN_PATTERN.sub(_describe(rng), text)
    if rng.random() < 0.25:
        for full, short in _CONTRACTIONS:
            text = re.sub(rf"\b{full}\b", short, text)
    text = text.replace("Mrs Finch", rng.choice(_WOMEN))
    return text.replace("Mr Brand", rng.choice(_MEN))
