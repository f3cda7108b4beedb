"""Write the corpus: stories in text shards, and held-out stories that occur in none of the shards."""

import multiprocessing
import pathlib

from tales.story import tell

SHARD = 10_000
HELD_OUT_SEED = 10_000_000_000  # training stories have the seeds 0, 1, 2, ...


def _write_shard(job):
    path, seeds = job
    stories = [tell(seed) for seed in seeds]
    path.write_text("\n\n".join(stories) + "\n")
    return [hash(story) for story in stories]


def read_shard(path):
    return pathlib.Path(path).read_text().rstrip("\n").split("\n\n")


def write_corpus(folder, count, workers):
    """Write stories 0 to count - 1, and return the shard paths and a set of story hashes."""
    folder.mkdir(parents=True, exist_ok=True)
    jobs = [(folder / f"shard{start // SHARD:05d}.txt", range(start, min(start + SHARD, count)))
            for start in range(0, count, SHARD)]
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        hashes = pool.map(_write_shard, jobs, chunksize=1)
    return [path for path, _ in jobs], {h for shard in hashes for h in shard}


def held_out(count, seen):
    """Stories with other seeds, without those that occur in the training corpus by chance."""
    stories, seed = [], HELD_OUT_SEED
    while len(stories) < count:
        story = tell(seed)
        if hash(story) not in seen:
            stories.append(story)
        seed += 1
    return stories
