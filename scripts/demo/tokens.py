"""Train the tokenizer, encode shards as token ids, and pack whole stories into windows."""

import multiprocessing
import re
import zlib

import numpy as np
import sentencepiece

from corpus import read_shard

BOS, EOS = 1, 2
_WORD = re.compile(r"\w+|[^\w\s]")


def train_tokenizer(shards, prefix, vocab_size, threads):
    """Train a BPE model with byte fallback on the paragraphs of some shards."""
    paragraphs = [line for shard in shards for story in read_shard(shard) for line in story.split("\n")]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(paragraphs), model_prefix=str(prefix), model_type="bpe",
        vocab_size=vocab_size, byte_fallback=True, character_coverage=1.0,
        normalization_rule_name="identity", add_dummy_prefix=True, remove_extra_whitespaces=False,
        unk_id=0, bos_id=1, eos_id=2, pad_id=-1, num_threads=threads, minloglevel=1)


def word_hashes(text):
    """A number for each word or punctuation mark, for counting shared word sequences."""
    return np.array([zlib.crc32(w.encode()) for w in _WORD.findall(text)], dtype=np.int64)


def _encode_shard(job):
    path, model = job
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(model))
    stories = read_shard(path)
    ids = [np.array([BOS, *tokenizer.encode(s), EOS], dtype=np.int16) for s in stories]
    words = [word_hashes(s) for s in stories]
    return ids, words


def encode_shards(shards, model, workers):
    """All stories as token ids, and as word hashes."""
    ids, words = [], []
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        for shard_ids, shard_words in pool.imap(_encode_shard, [(s, model) for s in shards]):
            ids += shard_ids
            words += shard_words
    return ids, words


def running_text(shards, model, length):
    """Windows of BOS and text, cut anywhere from stories joined by blank lines.

    Some of these windows teach the model to read plain text files as well as single stories.
    """
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(model))
    windows = []
    for shard in shards:
        stories = read_shard(shard)
        for start in range(0, len(stories), 50):
            ids = tokenizer.encode("\n\n".join(stories[start:start + 50]))
            for at in range(0, len(ids) - length, length - 1):
                windows.append(np.array([BOS, *ids[at:at + length - 1]], dtype=np.int16))
    return np.stack(windows) if windows else np.empty((0, length), dtype=np.int16)


def pack(stories, length):
    """Pack whole stories into windows by best fit; unused places are -1.

    No story is cut, every window starts with BOS, and each story ends with EOS.
    """
    buckets = [[] for _ in range(length + 1)]
    for index, story in enumerate(stories):
        if len(story) <= length:
            buckets[len(story)].append(index)
    fits = list(range(length + 1))  # fits[n]: where to find the longest story of at most n tokens

    def longest(room):
        path = []
        while room > 0 and not buckets[room]:
            path.append(room)
            room = fits[room] if fits[room] < room else room - 1
        for step in path:
            fits[step] = room
        return room

    windows = []
    while (room := longest(length)) > 0:
        window = np.full(length, -1, dtype=np.int16)
        at = 0
        while room > 0:
            story = stories[buckets[room].pop()]
            window[at:at + len(story)] = story
            at += len(story)
            room = longest(length - at)
        windows.append(window)
    return np.stack(windows)
