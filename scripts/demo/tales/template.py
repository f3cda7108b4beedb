"""A tiny template language for story sentences.

    [a|b|c]      one of the options, picked at random; options nest and may be empty
    {slot}       the value of a slot of the world, for example a character's name
    {slot.attr}  an attribute of that value, for example {h.his}
    <list>       a random word of a named word list, different each time if possible

tidy() corrects the starts of sentences, spoken sentences and a/an afterwards, so that templates
can be written in lower case with "a" everywhere.
"""

import functools
import re

_TOKEN = re.compile(r"\[|\]|\||\{[a-z_0-9.]+\}|<[a-z_]+>|[^\[\]|{}<>]+")


@functools.lru_cache(maxsize=None)
def parse(source):
    """Turn a template into nested tuples: str, ('slot', name, attr), ('word', list) or
    ('choice', options)."""
    tokens = _TOKEN.findall(source)
    if "".join(tokens) != source:
        raise ValueError(f"bad template: {source}")
    nodes, rest = _sequence(tokens, 0)
    if rest != len(tokens):
        raise ValueError(f"unbalanced brackets: {source}")
    return nodes


def _sequence(tokens, at):
    nodes = []
    while at < len(tokens) and tokens[at] not in ("]", "|"):
        token = tokens[at]
        if token == "[":
            options = []
            while token != "]":
                option, at = _sequence(tokens, at + 1)
                options.append(option)
                token = tokens[at] if at < len(tokens) else "]"
            nodes.append(("choice", tuple(options)))
        elif token[0] == "{":
            name, _, attr = token[1:-1].partition(".")
            nodes.append(("slot", name, attr))
        elif token[0] == "<":
            nodes.append(("word", token[1:-1]))
        else:
            nodes.append(token)
        at += 1
    return tuple(nodes), at


def expand(source, world):
    """Fill in a template with the slots and the random numbers of a world."""
    pieces = []
    _expand(parse(source), world, pieces)
    return "".join(pieces)


def _expand(nodes, world, pieces):
    for node in nodes:
        if isinstance(node, str):
            pieces.append(node)
        elif node[0] == "choice":
            _expand(world.pick(node[1]), world, pieces)
        elif node[0] == "slot":
            pieces.append(world.value(node[1], node[2]))
        else:
            _expand(parse(world.word(node[1])), world, pieces)


_SPACES = re.compile(r"  +")
_BEFORE_MARK = re.compile(r" +([,.!?;:])")
_ARTICLE = re.compile(r"\b([Aa]) (?=(?:[aeioAEIO]|u(?!ni|se)|hour|honest)(?!ne\b|nce\b))")
_START = re.compile(r'(^|[.!?] |[.]" |\n)("?)([a-z])')
_GOES_ON = re.compile(r',\" [^\".!?]*, \"$')  # "Wait," she said, "until it rains."
_QUOTE_END = re.compile(r'(.)"\.(?!\.)')
_SPOKEN = re.compile(r'((?:^|[ \n])")([a-z])')


def _quote_end(match):
    """Moves a full stop inside the quotes, and removes one after ? or !"""
    return match[1] + ("" if match[1] in ".!?" else ".") + '"'


def tidy(text):
    """Correct spaces, a/an and capital letters."""
    text = _SPACES.sub(" ", text.strip())
    text = _BEFORE_MARK.sub(r"\1", text)
    text = _QUOTE_END.sub(_quote_end, text)
    text = _ARTICLE.sub(r"\1n ", text)
    text = _START.sub(lambda m: m[1] + m[2] + m[3].upper(), text)
    return _SPOKEN.sub(lambda m: m[1] + (m[2] if _GOES_ON.search(text, 0, m.end(1)) else m[2].upper()), text)
