"""How stories begin and end, and small scenes that fit between the beats of any plot."""

TRAITS = {
    "curious": (
        "{h.he} asked [a hundred|twenty] questions [before breakfast|every day] and [a hundred more|some more] after it.",
        "[If there was a lid, {h} had to lift it|If there was a door, {h} had to look behind it|Where others saw a stone, {h} turned it over].",
        "{h.he} wanted to know [why the sky was blue|where the wind went at night|how bees found their way home|what clouds were made of]."),
    "shy": (
        "{h.he} [liked to stand at the back|hid behind {h.his} scarf when visitors came|blushed when people looked at {h.him}].",
        "[When people spoke to {h.him}|When someone said hello], {h.he} [looked at {h.his} feet|could hardly find {h.his} voice]."),
    "quiet": (
        "{h.he} [did not say much|spoke only a little], but {h.he} [noticed everything|listened very well|saw things that others missed].",
        "Some people talk and some people [listen; {h} was the listening|watch; {h} was the watching] kind."),
    "brave": (
        "{h.he} was not afraid of [thunder|spiders|the dark|big dogs], [and hardly ever of|or even of] [the deep end of the pond|the cellar|geese].",
        "[People said|Everyone said] that {h.he} [was not afraid of anything|had the heart of a lion]."),
    "clever": (
        "{h.he} could [count to a thousand|tie nine kinds of knots|fix a clock|find a way out of any puzzle] and [was always making something|never stopped thinking].",
        "[When something was broken|When there was a puzzle], people [came to {h.him}|asked for {h}]."),
    "kind": (
        "{h.he} [carried worms off the path when it rained|said good morning to every bird|always kept half of {h.his} bread for the ducks].",
        "[Nobody was ever lonely for long near {h}|{h.he} could not walk past anyone who looked sad]."),
    "cheerful": (
        "{h.he} [sang while {h.he} brushed {h.his} hair|whistled on the stairs|hummed all day], [mostly out of tune|and other people soon hummed too|even when it rained].",
        "{h.he} could find something to laugh about in [a puddle|a wet sock|a plain boiled egg]."),
    "little": (
        "{h.he} was [the smallest in the family|the smallest in the street|not very tall], but {h.he} had [big ideas|a big heart|a great many plans].",
        "{h.he} had to stand on a [stool|box] to see out of the window."),
    "young": (
        "{h.he} was [five|six|seven|eight] years old, [and a half|almost grown up|and two weeks], as {h.he} liked to [say|tell people].",),
    "small": (
        "{h.he} could [hide in a flour barrel|fit inside a suitcase|walk under the table without ducking], and often did.",),
}

QUIRKS = (  # (a detail for the opening, a sentence about it for the end)
    ("{h.he} [always wore|never took off] [a red hat|a yellow hat|a green scarf|a blue coat with brass buttons].", "[That night|When bedtime came], {h.he} [hung up {h.his} things|folded everything neatly] without being told."),
    ("{h.he} had a cat named [Plum|Soot|Mustard|Button|Pickle] who [followed {h.him} everywhere|slept on {h.his} feet|was very fond of fish].", "Even the cat seemed [pleased|to smile|to purr a little louder that evening]."),
    ("{h.he} kept [a diary|a small notebook] in which {h.he} wrote [down everything new|one thing every day|about each day].", "[That evening|Before bed], {h.he} wrote in {h.his} notebook: \"[Today was a good day|Best day so far|Today I learned something|A day to remember].\""),
    ("{h.he} was the kind of {h.noun} who [never gave up|liked to finish what {h.he} began|kept every promise].", "[And that is just like {h}|That was {h} all over], people said."),
    ("{h.he} [counted things|liked to count]: [steps, stairs and stars|birds, boats and buttons|clouds, cows and chimneys].", "[That night|Before {h.he} slept] {h.he} counted [the good things of the day|everything good that had happened], and [there were more than ten|{h.he} ran out of fingers]."),
    ("{h.his} pockets were always full of [string and chestnuts|stones and feathers|crumbs and snail shells].", "{h.he} put [one small stone|a feather|a chestnut] in {h.his} pocket to remember the day by."),
    ("{h.he} had a [song|tune] that {h.he} had made up {h.himself}.", "[All the way home|On the way back|That evening] {h.he} sang {h.his} song, with a new [verse|last line]."),
)
ANIMAL_QUIRKS = (
    ("{h.he} [hummed|sang] a little tune [while {h.he} worked|all day|when no one was near].", "And {h} went home humming [louder than before|{h.his} little tune|a brand-new tune]."),
    ("{h.he} liked [warm stones|soft moss|the smell of rain|quiet evenings|clear nights] and did not like [loud noises|surprises|cold toes|thunder|being late].", "[It had been|What] a day full of surprises, and [{h} did not mind one bit|{h} found {h.he} rather liked them]."),
    ("[Every evening|Each night], {h.he} [looked for the first star|said good night to the moon|counted the stars].", "That night, [the first star|the moon] seemed to [wink at {h.him}|shine a little brighter|smile]."),
    ("{h.he} was [very proud of|very careful with] {h.his} [whiskers|tail|ears|nose|eyes].", "And {h} [smiled all the way home|walked home with {h.his} head held high|went to bed very content]."),
)


LANDS = {  # where animals live: (at the first mention, at later ones)
    "wood": (("in a deep green forest", "in the forest"), ("in the old forest", "in the old forest"),
             ("in the hazel wood", "in the wood"), ("in a quiet wood", "in the wood"),
             ("in a forest at the foot of the mountains", "in the forest"), ("deep in the forest", "in the forest")),
    "farm": (("on a small farm", "on the farm"), ("on a busy farm", "on the farm"),
             ("on the farm on the hill", "on the farm"), ("on an old farm by the river", "on the farm")),
    "pond": (("in the green marsh", "in the marsh"), ("near a quiet pond", "at the pond"),
             ("where the river is wide and slow", "on the river"), ("among the reeds", "among the reeds")),
    "sea": (("in the blue sea", "in the sea"), ("on a coral reef", "on the reef"),
            ("in a warm bay", "in the bay"), ("at the bottom of the sea", "in the sea")),
    "savanna": (("on the wide plains", "on the plains"), ("in a hot, green land", "in that land"),
                ("in a land of tall grass", "in the tall grass"), ("on the sunny plains", "on the plains")),
    "snow": (("in the far north", "in the north"), ("in a land of snow", "in the snow"),
             ("in a land of ice and wind", "on the ice")),
}


def _may_date(w):
    """Whether the opening may name the morning."""
    return w.dated and not w.timed and w.time in ("", "morning") and w.chance(0.2)


def opening(w, thing=False):
    """Introduce the main character, and perhaps the place and a trait."""
    h = w.slots["h"]
    if h.species:
        _open_animal(w, thing)
    elif h.noun in ("girl", "boy"):
        _open_child(w, thing)
    else:
        _open_adult(w)


def _open_child(w, thing):
    h = w.slots["h"]
    if thing and w.chance(0.6):
        w.t("{h} had {x.a}. {h.he} {x.use}.",
            "{h} had {x.a}. {h.he} {x.use}.",
            "{h} had {x.a}, [and|] {h.he} loved it [very much|more than anything else]. {h.he} {x.use}.",
            "Once upon a time, {h.full} had {x.a}. {h.he} {x.use}.",
            "There was [once|] {h.full} who had {x.a}. {h.he} {x.use}.",
            "Of all {h.his} things, {h} loved {h.his} {x.full} [best|the most]. {h.he} {x.use}.",
            "[For {h.his} birthday|When {h.he} turned six|One winter], {h} [got|was given] {x.a}. From then on, {h.he} {x.use}.")
        return
    w.set("season", "spring", "summer", "autumn", "nearly summer", "a quiet week in autumn", "the first week of spring")
    family = w.slots["m"].name if getattr(w.slots.get("m"), "prefix", "") else "{h.his} family"
    w.slots["family"] = family
    if _may_date(w):
        _dated_child(w)
    else:
        _plain_child(w)
    w.maybe(0.45, *TRAITS.get(h.adjective, ("{h.he} was [never bored|seldom still|always busy].",)))
    if thing:
        w.t("{h.he} had {x.a}, and {h.he} {x.use}.",
            "[most of all|more than anything], {h.he} loved {h.his} {x.full}. {h.he} {x.use}.",
            "{h.his} [best|favourite|dearest] thing was {x.a}. {h.he} {x.use}.")
    elif w.chance(0.3):
        _quirk(w, QUIRKS)


def _dated_child(w):
    w.time, w.timed = "morning", True
    w.t("one [|fine |bright |cold |windy |summer ]morning, {h} woke up [early|before everyone else|with a smile|to the smell of <bread>].",
        "one [|fine |bright |cold |windy |spring ]morning, {h.full} [sat on the doorstep|stood at the window|lay in bed] and [looked at the clouds|listened to the birds|wondered what the day would bring].",
        "\"[Wake up|Get up], {h}!\" called [a voice from the kitchen|somebody down the stairs]. \"[It's a beautiful day|The sun is up|Breakfast is ready]!\"",
        "it was a [fine|grey|windy|cold|bright] morning in <village>, and {h.full} was [already awake|looking for something to do|the first one up].",
        "it was a [sunny|warm|grey|windy|lovely] day[| in <village>], and {h} [had no school|wanted to be outside|got up early].",
        "it was a [fine|windy|quiet|bright] morning. {h} [jumped out of bed|ate {h.his} porridge|opened the window] and [hurried to get dressed|looked outside|thought of all the things that could happen].")


def _plain_child(w):
    w.t("once upon a time, there was {h.full}[| who lived <home>].",
        "once upon a time, there was {h.full}[.| in <village>.]",
        "once upon a time, {h.full} lived <home>.",
        "once upon a time, in <village>, there [lived|was] {h.full}.",
        "there was [once|] {h.full} who lived <home>.",
        "there was a {h.noun} called {h} who lived <home>.",
        "in <village>, there [lived|was|once lived] {h.full}.",
        "{h} was {h.a} who lived <home>[| with {family}].",
        "{h.a} named {h} lived <home>[| with {family}].",
        "[in|at the edge of] a small [village|town], there [was|lived] {h.full}.",
        "the {h.adjective} {h.noun} who lived [next to the bakery|in the yellow house|by the bridge|at the end of the street] was called {h}.",
        "the {h.adjective} {h.noun} [in|from] the [crooked|yellow|last|white] house was called {h}[, and everybody liked {h.him}|].",
        "the little {h.noun} was called {h}, and {h.he} lived <home>.",
        "{h} and {family} lived <home>[|, in <village>].",
        "{h} and {family} [were early risers|had a small garden|kept two hens and a goat|always had breakfast by the window].",
        "{h} loved [the smell of rain|apples|old songs|stories|the wind|clouds|the sound of bells][, and {h.he} loved {family}|] more than anything.",
        "{h} was [bored|happy|hungry|wide awake|in a good mood|a little sad|not tired at all].",
        "this is the story of {h}, {h.a} who lived <home>.",
        "when {h} was [six|seven|eight] years old, {h.he} lived <home>.",
        "nobody in <village> [was as {h.adjective} as {h}|knew the hills better than {h}|could run as fast as {h}].",
        "it was {season}, and {h} [had nothing to do|was looking out of the window|had no school|could not wait to go outside].",
        "{h} lived <home>[, in <village>|].",
        "[long ago|not so long ago|far away], in <village>, there [lived|was] {h.full}.",
        "[everyone in town|the whole village|everybody in the street] knew {h}.",
        "{h} had [a big family|freckles on {h.his} nose|very good ears|messy hair and bright eyes|a small room under the roof|a yellow raincoat and red boots|a laugh like a bell].",
        "[every morning|every day after school], {h} [ran down to the river|climbed the big tree|fed the ducks|helped in the garden|waved to the boats].")


def _open_animal(w, thing):
    h = w.slots["h"]
    w.slots["in_a_land"], w.slots["where"] = w.pick(LANDS[w.biome])
    if _may_date(w):
        w.time, w.timed = "morning", True
        w.t("one [|fine |bright |cold |misty ]morning, {h.full} [woke up|came out] {h.home_again} and [sniffed the air|looked around|yawned|found that <sky>].",
            "one [|fine |bright |cold |misty ]morning, {in_a_land}, {h.full} was [looking for|thinking of] {h.food}.",
            "it was a [bright|fine|cool|misty] morning {where}, and <morning_sky>. {h.full} was [already up|awake before everyone else].")
    elif h.name:
        w.t("once upon a time, there was {h.full}[| who lived {h.home}].",
            "{h} was {h.a}, and {h.he} lived {h.home}.",
            "this is the story of {h} the {h.noun}, who lived {h.home}.",
            "{h} the {h.noun} was [bored|hungry|happy|wide awake|in a very good mood|looking for something to do].",
            "the {h.adjective} {h.noun} who lived {h.home} was called {h}.",
            "nobody {where} was as [busy|curious|cheerful|stubborn|friendly] as {h} the {h.noun}.",
            "once upon a time, {in_a_land}, there lived {h.full}.",
            "once upon a time, {h.full} lived {h.home}.",
            "{in_a_land}, there [lived|once lived|was] {h.full}.",
            "there was [once|] {h.full} who lived {h.home}.",
            "{h} was {h.a} who lived {h.home}.",
            "{h} the {h.noun} lived {h.home}[|, {in_a_land}].",
            "{h.full} lived {h.home}[|, {in_a_land}].",
            "{h.home} lived {h.full}.",
            "[long ago|far away], {in_a_land}, there lived {h.full}.",
            "[everyone|everybody] {where} knew {h} the {h.noun}.",
            "[every morning|every evening], {h} the {h.noun} [sat|stretched] {h.home_again} and [listened to the birds|watched the clouds|hummed a little tune|wondered about the world].",
            "it was [spring|summer|autumn] {where}, and {h.full} was [wide awake|full of plans|looking for something to do].")
    else:
        w.t("{h.the_adj} lived {h.home}.",
            "{h.the_adj} [woke up|yawned|stretched|sat] {h.home} and [looked at the sky|thought about the day|listened].",
            "{h.the_adj} was [bored|hungry|happy|wide awake|in a good mood|looking for something to do].",
            "{h.the_adj} had [lived {h.home} for years|a quiet life {where}|many cousins but few friends|the best home {where}].",
            "{h.the_adj} lived {h.home}, and [nobody knew for how long|that was the best place in the world|{h.he} would not have changed it for a palace].",
            "{h.the_adj} was [known to everyone|well known] {where}.",
            "once upon a time, there was {h.a} who lived {h.home}.",
            "once upon a time, {h.a} lived {in_a_land}.",
            "once, {in_a_land}, there lived {h.a}.",
            "{in_a_land}, there lived {h.a}.",
            "there was [once|] {h.a} who lived {h.home}.",
            "{h.a} lived {h.home}[|, {in_a_land}].",
            "{h.home} lived {h.a}.")
    w.maybe(0.35,
            "{h.he} [was|had always been] [careful|curious|cheerful|patient|kind|full of plans|a little shy|very tidy|rather proud], and {h.he} [loved|liked nothing better than] {h.food} [for breakfast|at the end of the day|with a friend].",
            "{h.he} knew [every path|every corner|every hiding place|each sound and smell] of {h.his} home.",
            "[The others|The neighbours] [liked|were fond of] {h.him}, because {h.he} [always had time|was never unkind|told good stories|was always ready to help].")
    if thing:
        w.t("{h.he} had {x.a}, and {h.he} {x.use}.",
            "{h.his} [best|dearest|favourite] thing was {x.a}. {h.he} {x.use}.",
            "[above all|more than anything], {h.he} loved {h.his} {x.full}. {h.he} {x.use}.")
    elif w.biome not in ("sea", "snow") and w.chance(0.25):
        _quirk(w, ANIMAL_QUIRKS)


def _open_adult(w):
    w.t("{h.a} named {h} lived in <village>." if w.slots["h"].name else "{h.a} lived in <village>.",
        "{h.the_adj} [lived|worked] {h.home}." if not w.slots["h"].name else "{h} the {h.noun} worked {h.home}.",
        "once upon a time, there was {h.full} who [lived and worked|worked] {h.home}.",
        "once upon a time, in <village>, there lived {h.full}.",
        "in <village>, there [lived|was] {h.full}.",
        "there was [once|] {h.full} who worked {h.home}.",
        "[long ago|many years ago], {h.full} lived in <village>.",
        "{h.the_adj} of <village> was [known far and wide|known to everyone|getting on in years].")
    w.maybe(0.5,
            "{h.he} [got up before the sun|rose early] and [worked until dark|seldom sat down|sang at {h.his} work].",
            "[Nobody in the land|No one for miles around] [was better at {h.his} work|worked harder].",
            "{h.he} [was poor|did not have much], but {h.he} [always had a kind word|shared what {h.he} had|never complained].")


def _quirk(w, quirks):
    intro, echo = w.pick(quirks)
    w.t(intro)
    w.echoes.append(echo)


def scene(w, probability=0.5):
    """Tell a small scene on the way, or nothing."""
    if not w.chance(probability):
        return
    h = w.slots["h"]
    if w.biome == "sea":
        w.t("[a shoal of tiny fish|a jellyfish|a cloud of bubbles] [drifted by|floated past] like [snow|a slow parade|lanterns].",
            "the water was [clear and green|cool and blue], and [beams of sunlight danced on the sand|the weeds waved gently].")
    elif w.biome == "snow":
        w.t("[snow creaked|the ice sang] under {h.his} feet, and [the cold nipped at {h.his} nose|{h.his} breath made little clouds].",
            "the wind [whistled over the ice|blew the snow into funny shapes].")
    elif h.species:
        w.t("[on the way|along the way], {h.he} passed [a spider mending its web|a row of ants with one long straw|two butterflies playing tag|a beetle on its back, and gently turned it over].",
            "[a breeze rustled the leaves|the leaves whispered|a woodpecker knocked far away], and [the path smelled of earth|light fell in golden spots|everything smelled of summer].",
            "[a cloud|one fat cloud] that looked like [a sleeping cat|a teapot|a turnip|a sheep] [sailed|drifted] [over the hill|slowly by].",
            "\"[Good day|Hello there|Lovely weather], {h.hello}!\" called [a bee|a beetle|a cricket|a butterfly] from [a thistle|a daisy|a fence post|a blade of grass]. {h} [waved|nodded and hurried on|called hello].")
    elif h.noun in ("girl", "boy"):
        w.t("[on the way|along the road], {h.he} passed the bakery, and the smell of <bread> [followed {h.him} down the street|made {h.his} stomach rumble].",
            "[a cloud|one fat cloud] shaped like [a whale|a teapot|a sleeping dog|a slipper] [sailed|drifted] [over the roofs|slowly by].",
            "[a cat on a wall|a dog in a doorway|a crow on a chimney] watched {h.him} [go by|pass] and [yawned|blinked|said nothing].",
            "\"[Good morning|Hello|Where are you off to], {h}[!|?]\" called [the postman|the milkman|old Mrs Finch|the neighbour]. \"[I can't stop now|I'm in a hurry|I'll tell you later]!\" {h} called back.",
            "{h.he} [hopped over the puddles|jumped from stone to stone|balanced along the low wall|kicked a pebble all the way], as {h.he} always did.")


def close(w, moral="", topic="", *own):
    """End the story with some of these: a feeling, a lesson, an evening, a look back."""
    if topic:
        w.slots["topic"] = topic
    h = w.slots["h"]
    land = w.biome not in ("sea", "snow")
    parts = []
    if own and w.chance(0.75):
        parts.append(w.pick(own))
    if w.echoes and w.chance(0.7):
        parts.append(w.pick(w.echoes))
    if moral and w.chance(0.5 if parts else 0.8):
        parts.append(w.pick((
            f"{{h}} [had learned|learned|now knew|understood] that <moral_{moral}>.",
            f"and [ever since|from that day on|after that], {{h}} [never forgot|remembered] that <moral_{moral}>.",
            f"[it is true|so it is true|you see]: <moral_{moral}>.",
            f"\"<moral_{moral}>,\" {{h}} [liked to say|often said] after that.")))
    evening = any(word in part for part in parts for word in ("night", "evening", "bed", "slept"))
    if topic and land and not evening and (not parts or w.chance(0.25)):
        night = w.time in ("evening", "night")
        lead = "[later|afterwards], " if night else "[that night|that evening|when night came], "
        if h.species:
            parts.append(lead + "{h} curled up {h.home_again}, thought [about|once more about] {topic}, and [fell asleep with a smile|slept soundly until morning|was soon fast asleep].")
        elif h.noun in ("girl", "boy"):
            parts.append(lead + "{h} lay in bed and thought about {topic}. [Soon {h.he} was fast asleep|Then {h.he} closed {h.his} eyes and smiled|{h.he} fell asleep before {h.he} could count to ten|Outside, <night_sky>].")
        else:
            parts.append(lead + "{h} sat by the fire, thought about {topic}, and [smiled|was content|felt warm all the way through].")
    if not parts or len(parts) == 1 and w.chance(0.3):
        parts.insert(0, w.pick((
            "{h} was <very_glad>.", "{h} had never been [so happy|happier].",
            "it was [a day to remember|the best day of the year|a very good day indeed].",
            "and [that was that|that was the end of the matter|so everything was all right again].",
            "{h} [smiled|could not stop smiling|felt warm inside] [for the rest of the day|all the way home|for a long time].")))
    if w.chance(0.5):
        w.p()
    for part in parts:
        w.t(part)
