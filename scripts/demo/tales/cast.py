"""The people and animals of the stories: names, kinds, pronouns and ways of moving."""

import dataclasses
import re

GIRLS = (
    "Lily Mia Anna Emma Clara Nora Ella Ruby Rosa Ivy Alice Maya Zoe Lucy Sara Hana Tilda Poppy Wren "
    "Greta Ines Freya Amina Leila Priya Suki Olive Hazel Daisy Molly June Edith Marta Elsie Ada Nina "
    "Vera Lena Flora Iris Mina Kira Tess Bea Dora Maggie Sofia Yuki Esme Willa Ann Carla Delia Fay Gwen Hilda Ingrid "
    "Jane Kate Lotte Mabel Nell Orla Paula Rita Stella Thea Una Wanda Zara Amy Bella Celia Dina Eva Fatima Gina Holly "
    "Ida Joan Kirsten Lisa Mona Nadia Polly Rose Sally Tina Ursula Viola").split()
BOYS = (
    "Tom Sam Ben Max Leo Finn Jack Noah Oscar Hugo Milo Theo Eli Arlo Omar Ravi Kenji Jonas Emil Anton "
    "Henry George Felix Luca Nico Peter Toby Will Otto Caspar Ned Rory Ali Mateo Diego Ivan Karl Jasper "
    "Simon Davy Alfie Bruno Hector Amos Linus Timo Pablo Kofi Idris Rufus Adam Basil Carl Dan Edgar Frank Gil Harry "
    "Isaac Jim Kurt Lars Mark Nils Olaf Paul Rex Stan Tim Vic Walter Alan Bill Colin Dirk Ernest Fred Gregor Hans "
    "Igor Joe Ken Lou Mick Norman Owen Philip Robin Sven Ted Wilbur Anders").split()
_ANY_ANIMAL = (
    "Pip Bramble Nutmeg Pepper Button Moss Pebble Thistle Biscuit Acorn Hopper Bobbin Barley Sorrel Bumble "
    "Pocket Sprout Truffle Crumb Twig Noodle Quill Toffee Nettle Plum Pickle Muddle Scout Tumble Bracken Chestnut "
    "Cricket Dusty Feather Fidget Flint Ivory Jumble Kip Lark Midge Mossy Nibs Oats Pudding Ripple Shadow Spice "
    "Tangle Whisker Wobble Ziggy").split()
ANIMAL_NAMES = {
    "f": _ANY_ANIMAL + (
        "Dot Hazel Clover Fern Mabel Tansy Olga Juniper Maple Tilly Poppy Ginger Marigold Willow Agnes Bella "
        "Flora Hattie Penny Rosie Violet Juno Daisy Matilda").split(),
    "m": _ANY_ANIMAL + (
        "Rusty Wilbur Basil Rufus Fergus Bruno Humphrey Chester Gus Ozzie Walter Percy Oswald Barnaby Tuffy "
        "Bertram Rowan Digby Hugo Stanley").split()}


@dataclasses.dataclass(frozen=True)
class Species:
    noun: str
    biome: str  # wood, farm, pond, sea, savanna, snow
    adjectives: str
    went: str
    go: str
    rush: str
    home: str
    food: str
    skills: frozenset
    size: int  # 1 tiny, 2 small, 3 medium, 4 big


def _at(home):
    """A home with its preposition; the default is 'in'."""
    return home if home.split()[0] in ("on", "at", "under") else "in " + home


def _species():
    rows = """
mouse wood little,small,grey,brown scampered scamper darted a_hole_under_a_tree_root seeds,crumbs,wild_grains dig,climb 1
rabbit wood brown,white,young,soft hopped hop bounded a_warm_burrow clover,carrots,sweet_grass dig,run 2
hare wood long-legged,quick,brown,young hopped hop raced a_hollow_in_the_grass clover,green_shoots run 2
hedgehog wood small,prickly,round,shy trotted trot scurried under_a_heap_of_dry_leaves beetles,windfall_apples,berries dig 1
squirrel wood red,little,quick,bushy-tailed scampered scamper raced a_hollow_oak nuts,acorns,pine_seeds climb,run 1
fox wood red,young,clever,old trotted trot dashed a_den_under_the_hill berries,apples,cheese run,dig 3
bear wood big,brown,gentle,old lumbered lumber charged a_cave_behind_the_waterfall honey,berries,nuts climb,strong 4
owl wood old,wise,grey,brown flew fly swooped a_hollow_pine_tree berries,beetles,seeds fly,night 2
badger wood old,stout,striped,quiet shuffled shuffle hurried a_deep_sett_in_the_bank roots,mushrooms,apples dig,night 3
mole wood small,velvety,busy,young shuffled shuffle hurried a_long_tunnel_under_the_meadow roots,worms,beetles dig,night 1
deer wood young,gentle,shy,spotted walked walk leapt a_ferny_clearing leaves,grass,mushrooms run 4
snail wood small,slow,patient,little crept creep crept on_a_mossy_stone_wall lettuce,leaves,strawberries slow 1
tortoise wood old,slow,calm,wrinkled plodded plod plodded on_a_sunny_bank_of_sand lettuce,dandelions,leaves slow 2
crow wood black,clever,young,noisy flew fly flapped at_the_top_of_a_tall_elm seeds,cherries,crumbs fly 2
sparrow wood little,brown,cheerful,young fluttered flutter darted a_nest_in_the_hedge seeds,crumbs,oats fly 1
robin wood little,round,bold,red-breasted fluttered flutter flew a_nest_in_the_ivy berries,crumbs,worms fly 1
wren wood tiny,brown,quick,little fluttered flutter darted a_nest_among_the_brambles seeds,gnats,crumbs fly 1
bee wood busy,little,fuzzy,striped buzzed buzz zoomed a_hive_in_a_hollow_log honey,nectar,pollen fly 1
ladybird wood tiny,red,spotted,little fluttered flutter flew under_a_curled-up_leaf greenfly,nectar,dew fly 1
ant wood tiny,black,busy,little crawled crawl scurried a_nest_under_a_flat_stone crumbs,sugar,seeds strong,climb 1
bat wood small,brown,quiet,young flew fly swooped under_an_old_barn_roof moths,gnats,plums fly,night 1
raccoon wood young,masked,playful,plump trotted trot scrambled a_hollow_log berries,corn,apples climb 2
duck pond yellow,young,plump,white waddled waddle paddled a_nest_in_the_reeds oats,pondweed,bread swim,fly 2
frog pond green,little,young,spotted hopped hop leapt on_a_lily_pad flies,gnats,beetles swim 1
toad pond bumpy,brown,old,round hopped hop scrambled a_cool_hole_by_the_pond flies,slugs,beetles swim 1
otter pond sleek,brown,playful,young padded pad dived a_den_in_the_riverbank fish,shrimps,river_snails swim,run 2
beaver pond busy,brown,stout,young waddled waddle paddled a_lodge_of_sticks bark,roots,apples swim,build 3
newt pond small,spotted,shy,young crept creep wriggled under_a_stone_in_the_stream gnats,worms,pondweed swim 1
heron pond tall,grey,old,patient strode stride flapped on_the_far_bank_of_the_river fish,reeds,pondweed fly,swim 3
swan pond white,graceful,young,proud glided glide flapped a_nest_on_the_island pondweed,oats,grain swim,fly 3
goose pond grey,noisy,white,proud waddled waddle flapped a_nest_by_the_lake grass,oats,corn swim,fly 3
cat farm black,striped,grey,lazy padded pad dashed a_basket_by_the_stove milk,fish,cream climb,night 2
dog farm brown,shaggy,spotted,friendly trotted trot raced a_kennel_by_the_gate bones,biscuits,sausages run,swim 3
puppy farm small,brown,playful,floppy-eared trotted trot bounded a_box_by_the_stove biscuits,milk,porridge run 2
kitten farm little,ginger,fluffy,grey padded pad scampered a_basket_in_the_kitchen milk,fish,cream climb 1
pig farm pink,round,plump,muddy trotted trot galloped a_sty_full_of_straw turnips,apples,potatoes dig 3
hen farm brown,speckled,fussy,plump strutted strut flapped the_hen_house corn,barley,seeds fly 2
rooster farm proud,red,loud,handsome strutted strut flapped the_hen_house corn,barley,seeds fly 2
cow farm brown,gentle,spotted,big walked walk galloped the_red_barn grass,hay,clover strong 4
horse farm brown,old,grey,tall trotted trot galloped the_stable oats,apples,hay strong,run 4
donkey farm grey,stubborn,old,patient trotted trot galloped the_little_stable thistles,carrots,hay strong 4
sheep farm white,woolly,gentle,young trotted trot ran on_the_green_hillside grass,clover,hay run 3
lamb farm white,little,woolly,wobbly skipped skip ran on_the_green_hillside grass,milk,clover run 2
goat farm white,bearded,stubborn,young trotted trot leapt on_the_stony_hill grass,thistles,cabbage climb,run 3
fish sea little,silver,striped,orange swam swim darted a_crack_in_the_coral seaweed,plankton,sea_crumbs swim 1
crab sea small,red,grumpy,old scuttled scuttle scurried a_hole_under_a_rock seaweed,shrimps,plankton swim,dig 1
octopus sea shy,purple,clever,young swam swim shot a_cave_in_the_reef shrimps,clams,seaweed swim,hide 3
seahorse sea tiny,yellow,gentle,young drifted drift darted a_garden_of_seaweed plankton,shrimps,seaweed swim 1
dolphin sea grey,playful,young,quick swam swim leapt the_wide_blue_bay shrimps,squid,seaweed swim,strong 4
turtle sea old,green,calm,wise swam swim paddled a_quiet_cove seaweed,sea_grass,jellies swim 3
whale sea huge,blue,gentle,old swam swim surged the_deep_sea plankton,krill,shrimps swim,strong 4
elephant savanna big,grey,young,gentle walked walk charged the_shade_of_a_fig_tree leaves,melons,bananas strong,swim 4
lion savanna golden,proud,young,old strode stride bounded a_rocky_den melons,figs,fish run,strong 4
monkey savanna brown,cheeky,little,young swung swing scrambled a_tall_fig_tree bananas,figs,nuts climb 2
giraffe savanna tall,young,gentle,spotted walked walk galloped at_the_edge_of_the_plain leaves,buds,fruit run 4
zebra savanna striped,young,quick,nervous trotted trot galloped on_the_grassy_plain grass,leaves,fruit run 4
hippo savanna round,big,sleepy,muddy lumbered lumber splashed a_muddy_pool grass,reeds,melons swim,strong 4
parrot savanna green,chatty,bright,old fluttered flutter flew a_hole_in_a_palm_tree seeds,nuts,mangoes fly 2
meerkat savanna little,thin,watchful,young scampered scamper darted a_burrow_in_the_sand beetles,roots,melons dig,run 1
lizard savanna little,green,quick,shy crept creep darted under_a_warm_flat_rock beetles,flies,figs climb,run 1
penguin snow small,round,young,black-and-white waddled waddle slid a_nest_of_pebbles shrimps,fish,krill swim 2
seal snow grey,plump,young,whiskered wriggled wriggle slid a_hole_in_the_ice fish,shrimps,squid swim 3
"""
    table = {}
    for row in rows.strip().splitlines():
        noun, biome, adjectives, went, go, rush, home, food, skills, size = row.split()
        table[noun] = Species(
            noun, biome, adjectives.replace(",", "|"), went, go, rush, _at(home.replace("_", " ")),
            food.replace("_", " ").replace(",", "|"), frozenset(skills.split(",")), int(size))
    return table


SPECIES = _species()

VOICES = {
    "mouse": "squeaked", "frog": "croaked", "toad": "croaked", "owl": "hooted", "crow": "cawed",
    "sparrow": "chirped", "robin": "chirped", "wren": "chirped", "bee": "buzzed", "duck": "quacked",
    "goose": "honked", "dog": "barked", "puppy": "yapped", "cat": "purred", "kitten": "mewed",
    "pig": "grunted", "hen": "clucked", "rooster": "crowed", "bear": "rumbled", "lion": "rumbled",
    "elephant": "rumbled", "whale": "boomed", "parrot": "squawked", "monkey": "chattered",
    "squirrel": "chattered", "goat": "bleated", "lamb": "bleated", "sheep": "bleated",
    "horse": "snorted", "donkey": "snorted", "hippo": "grunted", "badger": "grunted",
    "seal": "barked", "penguin": "squawked", "dolphin": "clicked", "crab": "grumbled"}

JOBS = {  # noun: (gender or "", tools of the trade, place of work)
    "baker": ("", "rolling pin", "in the bakery"),
    "fisherman": ("m", "nets", "by the harbour"),
    "clockmaker": ("", "tiny tools", "in a shop full of ticking clocks"),
    "shoemaker": ("", "hammer", "in a narrow shop"),
    "gardener": ("", "spade", "in the gardens behind the church"),
    "potter": ("", "wheel", "in a workshop by the river"),
    "weaver": ("", "loom", "in a room with a big window"),
    "farmer": ("", "cart", "on a farm below the hill"),
    "tailor": ("", "needle", "in a shop on the square"),
    "miller": ("", "sacks", "in the windmill"),
    "carpenter": ("", "saw", "in a workshop that smelled of pine"),
    "painter": ("", "brushes", "in a room under the roof"),
    "teacher": ("", "chalk", "in the village school"),
    "beekeeper": ("", "hives", "at the edge of the heath"),
    "lighthouse keeper": ("", "lamp", "in the lighthouse on the rocks"),
    "cook": ("", "pots", "in the kitchen of the inn"),
    "postman": ("m", "bag", "on the long road through the hills"),
    "shepherd": ("", "crook", "on the high hills"),
    "toymaker": ("", "glue pot", "in a shop with a red door"),
    "librarian": ("", "books", "in the town library"),
}


class Character:
    """A character of a story. Templates use its attributes as {slot.attr}."""

    def __init__(self, rng, noun, gender, name="", adjective="", species=None, prefix=""):
        self.rng, self.noun, self.gender, self.name = rng, noun, gender, name
        self.adjective, self.species, self.prefix = adjective, species, prefix
        self.unique = True  # False when another character of the story is of the same kind
        self.call = name  # how others address this character
        self.he, self.him, self.his, self.himself = (
            ("she", "her", "her", "herself") if gender == "f" else ("he", "him", "his", "himself"))
        self.went, self.go, self.rush = ("walked", "walk", "ran")
        if species:
            self.went, self.go, self.rush = species.went, species.go, species.rush
            self.home = species.home

    @property
    def food(self):
        return self.rng.choice(self.species.food.split("|")) if self.species else "bread"

    @property
    def the(self):
        """The kind, if only one character is of this kind, for example 'the girl'; else the name."""
        return self.name if self.prefix or not self.unique else f"the {self.noun}"

    @property
    def the_adj(self):
        return f"the {self.adjective} {self.noun}"

    @property
    def ref(self):
        """The name, or sometimes the kind: 'Lily' or 'the girl'."""
        if self.name:
            plain = self.prefix or not self.unique or self.rng.random() < 0.75
            return self.name if plain else f"the {self.noun}"
        return f"the {self.noun}" if self.rng.random() < 0.6 else f"the {self.adjective} {self.noun}"

    @property
    def a(self):
        return f"a {self.adjective} {self.noun}" if self.adjective else f"a {self.noun}"

    @property
    def full(self):
        if self.prefix:
            return self.name
        if not self.name:
            return self.a
        return f"{self.a} {self.rng.choice(('named', 'named', 'called'))} {self.name}"

    @property
    def home_again(self):
        """The home after its first mention: 'in the hollow oak'."""
        return re.sub(r"^(\w+) an? ", r"\1 the ", self.home)

    @property
    def sib(self):
        return "sister" if self.gender == "f" else "brother"

    @property
    def hello(self):
        """How a stranger addresses this character."""
        return self.name if self.name and not self.prefix else f"{self.adjective} {self.noun}".strip()

    def __str__(self):
        return self.name or self.ref
