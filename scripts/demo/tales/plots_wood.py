"""Stories of animals: help and thanks, tricks, boasts and small worries."""

from .frame import close, opening


def small_helps_big(w):
    w.animal("h", sizes=(1,))
    w.animal("f", sizes=(4,), biome=w.biome)
    w.place("p")
    opening(w)
    w.p()
    w.t("nobody asked {h} for help. {h.he} was too small, they said. [The biggest of them all|The one who said it most] was {f.full}.",
        "{where} also lived {f.full}, who [laughed at small animals|never looked down to see who was there|thought only big animals mattered].")
    w.say("f", "[What can someone so small do?|Out of my way, little one.|You could hide behind a leaf!] [You could not lift a plum.|Ask me when you have grown.|]", w.pick(("cross", "glad")))
    w.t("{h} [said nothing|only smiled|did not answer]. {h.he} [went on with {h.his} work|had heard that before].")
    w.t("{day} {h} heard a [groan|roar|cry for help] {p.at}. {h.he} {h.rush} to see.")
    trouble = w.pick(("thorn", "rope", "mud"))
    w.t({"thorn": "it was {f}, [with a long thorn deep in one foot|lying on the ground with a thorn in one foot]. {f.he} could not [reach it|pull it out], and every step hurt.",
         "rope": "it was {f}, [tangled|all caught up] in an old rope. The more {f.he} pulled, the tighter it got.",
         "mud": "it was {f}, stuck in the mud up to the belly. The more {f.he} [struggled|kicked], the deeper {f.he} sank."}[trouble])
    w.say("f", "[Go and get somebody big!|Is there nobody strong here?] [You can't help me.|You are much too small for this.]", w.pick(("sad", "shout")))
    w.say("h", "[Perhaps I am just small enough.|Hold still, please.|Big is not the only way to be.] [Let me try.|I have an idea.]", "say")
    w.p()
    w.t({"thorn": "{h} crept close, took hold of the thorn and [pulled|tugged]. It did not move. {h.he} [wriggled it a little to the left and a little to the right|pulled again with all {h.his} might], and [out it came|pop, it was out].",
         "rope": "{h} looked for the [knot|one knot that held all the others]. Then {h.he} [picked at it, thread by thread|worked it loose, strand by strand], until the rope [fell away|dropped to the ground].",
         "mud": "{h} [raced off|hurried away] and came back with [ten cousins|all {h.his} family|everyone small enough to have been laughed at]. Each brought [a stick|a bundle of reeds], and they laid them down until there was a firm path under the stuck one's feet."}[trouble])
    w.t("{f} [stood up slowly|shook {f.himself}|took one step, and then another]. {f.he} looked down[, for the first time,|] and [really saw|saw] {h}.")
    w.say("f", "[I was wrong about you.|I have been foolish.|I called you small, and I was the one who could not see.] [Thank you.|Can you forgive me?|How can I thank you?]", "soft")
    w.say("h", "[You could carry me home.|Just look down now and then.|A ride would be nice.]", "glad")
    w.t("after that, {h} [often rode on {f}'s back|had the best seat {where}], [high above the grass|as tall as a tower], and {f} [always looked before {f.he} sat down|never called anyone small again].")
    close(w, "self", "{f}", "the two of them made a funny pair, but nobody laughed.")


def winter_stores(w):
    w.animal("h", w.pick(("squirrel", "mouse", "hedgehog", "badger", "raccoon", "rabbit")), named=0.7)
    w.animal("f", sizes=(1, 2, 3))
    w.set("nut", *{"squirrel": ("nuts", "acorns"), "mouse": ("seeds", "wild grains"), "hedgehog": ("apples", "berries"), "badger": ("roots", "mushrooms"),
                   "raccoon": ("corn", "dried berries"), "rabbit": ("carrots", "dry clover")}[w.slots["h"].noun])
    opening(w)
    w.p()
    w.t("autumn came, and [the leaves turned red|the wind smelled of frost]. Everyone was busy [gathering food|filling their larders].",
        "when the leaves began to fall, everyone {where} gathered food for the winter.")
    way = w.pick(("forgot", "played", "robbed"))
    if way == "forgot":
        w.t("{h} worked [from morning to night|harder than anyone]. {h.he} hid {nut} [under roots|in hollow logs], behind stones and [in places so clever|so well] that [no one would ever find them|no thief could find them].")
        w.t("then the snow came. {h} went to fetch {h.his} {nut}. {h.he} dug here. {h.he} dug there. [Everything was white|Everything looked the same], and {h.he} could not remember [one single hiding place|where a single one was].")
        w.say("h", "[I hid them too well!|Was it under this stone, or that one?] [I have hidden my food from myself.|What a silly creature I am.]", "sad")
    elif way == "played":
        w.t("only {h} did not. {h.he} [slid down hills of leaves|danced with the wind|lay in the last warm sun]. \"[There is still time|Winter is far away],\" {h.he} said [every day|each morning].")
        w.t("then one night it snowed. In the morning the world was white and hard, and {h.his} larder held [three dry leaves|nothing but a cobweb].")
        w.say("h", "[I thought there was time.|I should have listened.] [Now what shall I do?|Now I have nothing at all.]", "sad")
    else:
        w.t("{h} filled {h.his} larder [to the roof|until the door would hardly shut]. But one night there was a [great rain|flood|storm], and the water [ran in|came through the wall] and carried everything away.")
        w.t("{h} stood [in the wet|before the empty shelves]. [All that work|A whole autumn], gone. And [the first snow was falling|the snow was already in the air].")
        w.say("h", "[All my {nut}!|Everything is gone.] [How shall I live till spring?|There is nothing left to find.]", "sad")
    w.p()
    w.t("{h.his} neighbour, {f.full}, [heard {h.him} crying|saw the light in {h.his} window go out|came by to say good evening].",
        "there was a knock. Outside stood {f.full}, [with snow on {f.his} head|wrapped in a shawl of moss].")
    w.say("f", "[Come to my place.|My larder is full, and my home is too quiet.|I have enough for two if we eat slowly.] [The winter is long for one alone.|In return, you can tell me stories.|You can bring a song. That is enough.]", "kind")
    w.t("so {h} moved in. They ate [little|two meals a day], but they [ate together|laughed a lot]. In the evenings {h} [told stories|sang], and {f} [mended things|roasted chestnuts|kept the fire].")
    w.t("[At last the snow melted|Spring came]. And what do you think? [Green shoots came up everywhere|They found {nut} by the path, washed up under a bush|Under the very first stone they turned lay a heap of {nut}].")
    w.t("{h} [brought the first basket of spring to|shared all {h.he} found with] {f}, and the next autumn they [gathered together|filled one larder together].")
    close(w, "share", "the long winter", "and {h} drew a map[, just in case|].")


def boaster(w):
    w.animal("h", w.pick(("rooster", "swan", "hare", "horse", "lion", "parrot", "goose", "fox", "squirrel", "crow")), named=0.7)
    w.animal("f", sizes=(1, 2))
    part, others = {
        "rooster": ("{h.his} voice", "Who can crow like me?"), "swan": ("{h.his} white feathers", "Who is as white as I am?"), "hare": ("{h.his} fast legs", "Who can run like me?"),
        "horse": ("{h.his} long mane", "Who has a mane like mine?"), "lion": ("{h.his} golden mane", "Who is as grand as I am?"), "parrot": ("{h.his} bright feathers", "Who is as bright as I am?"),
        "goose": ("{h.his} long neck", "Who holds a head as high as I do?"), "fox": ("{h.his} red tail", "Who has a tail like mine?"), "squirrel": ("{h.his} bushy tail", "Who has a tail like mine?"),
        "crow": ("{h.his} clever tricks", "Who is as clever as I am?")}[w.slots["h"].noun]
    w.set("part", part)
    w.slots["brag"] = others
    w.place("p")
    opening(w)
    w.p()
    w.t("{h} was proud of {part}, and {h.he} talked of [nothing else|it from morning to night].",
        "there was only one thing {h} liked to talk about, and that was {part}.")
    w.say("h", "Look at me! {brag} [Nobody, that's who.|Go on, tell me.|You may all admire me now.]", "glad")
    w.t("the others [sighed|rolled their eyes|had heard it a hundred times]. When {h} came [by|near], they [remembered something they had to do|found reasons to leave|pretended to be asleep].")
    w.t("only {f.full} [was polite enough to stay|listened]. \"[And what else|What do you like, apart from that]?\" {f.he} asked. {h} [did not know what to say|had no answer].")
    w.p()
    w.t("{day} [it rained so hard that the stream rose|a great storm came|a thick fog rolled in]. {h} was {p.at}, and [could not get home|could not find the way|was soon wet, cold and lost].")
    w.t("All {h.his} fine boasting was no help now. {h} [sat under a bush and shivered|called out, but the wind was louder|felt very small].")
    w.t("then [a tiny light|a small voice] came through the [rain|dark]. It was {f}. \"[I noticed you were missing|It was so quiet that I got worried],\" {f.he} said.")
    w.say("h", "[You came for me?|But I was never nice to you.] [After all my boasting?|Why?]", "soft")
    w.say("f", "[You are more than what you boast of.|I thought you might be lonely.|It's what neighbours do.] [Hold on to me.|Come, I know the way.]", "kind")
    w.t("step by step, {f} led {h} home. [And all the way|On the way] {h} asked questions[, for once|]: [where {f} had been born, and what {f.he} dreamed of|what {f} liked to eat, and who {f.his} friends were]. [The answers were wonderful|{h.he} had never known how interesting others could be].")
    w.t("the next day, when the others saw {h} coming, they [got ready to leave|sighed already]. But {h} said, \"Good morning. How are you all?\" And [nobody left|they stayed, and talked until dark].")
    close(w, "proud", "{f}", "{h} was still a little proud, of course, but now {h.he} was proud of {h.his} friends.")


def trickster(w):
    w.animal("h", sizes=(1, 2), biome=w.pick(("wood", "wood", "farm", "pond")))
    w.being("o", w.pick(("fox", "fox", "wolf", "weasel", "crow")), adjective=w.pick(("hungry", "sly", "old", "greedy", "cunning")))
    if w.slots["h"].noun == w.slots["o"].noun:
        w.being("o", "wolf", adjective="hungry")
    w.place("p")
    opening(w)
    w.p()
    w.t("{day} {h} was {p.at} when {o.a} stepped out from behind a tree.",
        "{day} {h} {h.went} along the path, thinking of {h.food}. Around the bend, {o.a} was waiting.")
    w.say("o", "[Good day, my little dinner.|How nice of you to come.|What a tasty morning.] [Don't run. I am faster.|I have not eaten since Monday.|]", "say")
    w.t("{h}'s heart [jumped|beat like a drum], but {h.he} [kept very calm|thought fast|did not show it].")
    way = w.pick(("moon", "song", "bigger", "race", "recipe"))
    if way == "moon":
        w.say("h", "[Why eat something as thin as me?|I am hardly a mouthful.] There is a great round cheese in the pond, [big enough for a week|yellow and ripe].", "say")
        w.t("They went to the water together when the moon was up, and there it was: round and [yellow|golden], shining in the dark. {o.the} [licked {o.his} lips|laughed] and jumped.")
        w.t("splash! There was [no cheese at all|only cold water]. When {o.he} climbed out, [dripping and sneezing|with weeds on {o.his} head], {h} was [far away|safe at home].")
    elif way == "song":
        w.say("h", "[Very well. But grant me one last wish.|As you like. But first, may I ask for one thing?] [They say you have the finest voice in the land.|I have heard that nobody sings like you.] Would you sing for me?", "ask")
        w.t("{o.the} [felt flattered|was very pleased with {o.himself}]. {o.he} put back {o.his} head, closed {o.his} eyes and [sang|howled]. It was [dreadful|the worst noise ever heard].")
        w.t("[All the dogs in the village|The farmer's three big dogs] [heard it and came running|began to bark and came over the hill]. {o.the} had to run for {o.his} life, and {h} [went home, laughing|sat down and laughed].")
    elif way == "bigger":
        w.say("h", "[Oh, be careful!|Quick, hide!] [Something huge is coming behind me.|The hunter with the big boots is close behind me!|]", "shout")
        w.t("{h} [stamped and shook the bushes|threw a stone into the thicket|pulled a branch and let it go], and [it sounded like something enormous|there was a terrible crash].")
        w.t("{o.the} turned [pale|around] and ran [without looking back|until the hills hid {o.him}]. There was nothing in the bushes at all, [except one surprised beetle|except a startled wren].")
    elif way == "race":
        w.say("h", "[You may eat me, if you can catch me.|Let's have a race. If you win, I am yours.] I [shall wait for you|am going to hide] [on the other side of the hollow log|behind the bramble hedge].", "say")
        w.t("{h} slipped through a hole no wider than an apple. {o.the} dived after {h.him}, and there {o.he} stuck, [front half in, back half out|with {o.his} legs in the air].")
        w.say("h", "[Do hold still.|Next time, eat less breakfast.] [You will get out when you are thinner.|I'll send someone to pull you out tomorrow.]", "glad")
    else:
        w.say("h", "[Nobody eats us raw any more.|But you have no salt!|Surely not without the sauce?] [You need thyme, honey and a big pot.|First you must find seven kinds of herbs.]", "say")
        w.t("{o.the} [wrote it all down|counted on {o.his} toes]: {o.he} went for [honey, and the bees stung {o.him}|thyme, and fell down the bank|a pot, and the cook chased {o.him} with a broom].")
        w.t("when {o.he} came back at last, [sore and tired|with a swollen nose], there was only a note: \"[Start without me|I have eaten already].\"")
    w.p()
    w.t("[that evening|later], {h} told [the others|{h.his} family] about it. \"[Were you not afraid|How did you dare]?\" they asked.",
        "\"[How did you get away|Weren't you scared]?\" asked the others when {h} came home.")
    w.say("h", "[Very much.|Of course I was.|My knees are still shaking.] [But fear is no reason to stop thinking.|So I used the only thing I had, which was my head.|But a good idea runs faster than any legs.]", w.pick(("say", "glad")))
    close(w, "", "{o.the}", "and {o.the}? {o.he} [never came that way again|has eaten only turnips ever since, or so they say].", "{h} took another path for a while, all the same.")


def strange_noise(w):
    w.animal("h", sizes=(1, 2))
    w.animal("f", sizes=(1, 2, 3))
    w.animal("g", sizes=(3, 4), biome=w.biome)
    opening(w)
    w.p()
    w.set("noise", "boom, boom", "woooo", "grrrum", "clack, clack, clack", "hoo-ee, hoo-ee", "thud, thud")
    w.t("{day} a strange sound was heard {where}. \"{noise},\" it went, [over and over|and then it stopped, and then it came again].",
        "{day} everyone woke to a strange sound. \"{noise}!\" It came from [behind the hill|the old hollow tree|the thicket].")
    w.t("{f.full} [ran|came running] past. \"[It's a monster|Run, it's a giant]!\" {f.he} cried. \"It has [teeth like saws|eyes like moons|feet like barrels]!\"")
    w.t("{g.full} came next[, shaking all over|]. \"[I heard it too|It must be as big as a barn],\" said {g.the}. \"It has [horns|nine legs|a tail of fire]!\"")
    w.t("with every telling, the monster grew. Soon it had [three heads|wings like sails], and [nobody dared to go out|everyone hid].")
    w.say("h", "[Has anyone seen it?|But who has really looked?|Did you see it, or only hear it?]", "ask")
    w.t("[There was silence|Nobody answered|They all looked at each other]. No one had.")
    w.say("h", "[Then I'll go and look.|Somebody must go and see.|I would rather know than wonder.]", "say")
    w.p()
    w.t("{h} {h.went} [closer and closer|on, although {h.his} knees shook]. \"{noise},\" it went. {h.he} parted the [leaves|grass] and [peeped|peered] through.")
    w.set("cause", "an empty barrel, rolling in the wind", "a bottle, and the wind was blowing over its neck", "a very young owl, practising", "a small frog, sitting inside a big tin can",
          "a loose board on the old shed", "a baby donkey with the hiccups", "a woodpecker who had found a hollow pipe", "a boot with a toad in it, snoring")
    w.t("there was no monster. It was {cause}!", "and what did {h.he} see? It was {cause}.")
    w.t("{h} [laughed until {h.he} had to sit down|began to giggle|felt all the fear run out of {h.him}]. Then {h.he} went back and fetched the others.")
    w.t("they came [on tiptoe|one behind the other]. They looked. Nobody said anything. Then {g} [coughed|went red]. \"I [knew it all the time|was never really scared],\" said {g.the}.")
    w.t("and everyone [laughed|burst out laughing], {g.the} [loudest of all|too].")
    close(w, "brave", "the monster", "whenever something went bump after that, they said, \"[It has three heads|It must be the monster]!\" and laughed.", "\"How many heads did it have?\" {h.his} mother asked at supper. \"None at all,\" said {h}.")


def wants_to_fly(w):
    w.animal("h", w.pick(("mole", "tortoise", "frog", "mouse", "hedgehog", "pig", "rabbit", "snail", "kitten", "beaver")), named=0.8)
    w.animal("f", w.pick(("owl", "crow", "heron", "goose", "swan", "robin")))
    w.slots["f"].unique = True
    opening(w)
    w.p()
    w.t("{h} had a dream: {h.he} wanted to fly.", "every day {h} watched the birds, and every day {h.he} wished for wings.",
        "{h} looked up at the birds and sighed. [If only {h.he} could fly|How {h.he} longed to be up there]!")
    w.t("{h.he} [tied leaves to {h.his} arms and jumped from a log|jumped from a stump with an old umbrella|jumped off a haystack with a cabbage leaf on each side]. {h.he} landed in [the nettles|a puddle|the mud, nose first].")
    w.t("{day} {h.he} built a [glider of bark and reeds|pair of wings from feathers {h.he} had found]. [It was beautiful|It took all morning]. It flew [as far as a stone does|for exactly one second].")
    w.t("[Some ducks|The sparrows|Two magpies] [laughed|giggled]. \"[A flying {h.noun}|Whoever heard of that]!\" they said.")
    w.p()
    w.t("{f.full} [had been watching from a branch|had watched it all]. {f.he} did not laugh.", "but {f.full}, who [had seen it all|sat nearby], did not laugh.")
    w.say("f", "[Why do you want to fly?|What do you hope to see up there?]", "ask")
    w.say("h", "[I want to see what is behind the hill.|I want to see the whole world at once.|I want to know what clouds smell like.] [Just once.|Only one time.]", "soft")
    way = w.pick(("carry", "hill", "swap"))
    if way == "carry":
        w.t("{f} thought for a while. Then {f.he} [called|fetched] three [cousins|friends], and each took one corner of [an old blanket|a fishing net|a big scarf]. \"[Sit in the middle|Climb in],\" {f.he} said, \"and hold on.\"")
        w.t("up they went! The [pond|meadow] became [a plate|a green handkerchief], the river became [a silver thread|a ribbon], and behind the hill there was [another hill, and behind that, the sea|a town with a hundred chimneys].")
        w.say("h", "[It goes on and on!|There is so much of it!|Oh! Oh!] [I can see my own front door!|]", "shout")
    elif way == "hill":
        w.t("\"[Come with me|Follow me],\" said {f}. {f.he} did not fly. {f.he} went on foot, slowly, beside {h}, up the highest hill [in the land|for miles around]. It took [all day|until evening].")
        w.t("at the top, the wind was [so strong that {h.he} could lean on it|roaring]. Below lay [everything|the whole world]: the woods, the river, the roofs, the far blue edge of the sea.")
        w.say("h", "[I can see everything!|I'm as high as the birds!] [And I got here on my own feet.|I walked into the sky!]", "shout")
    else:
        w.t("{f} [sighed|was quiet for a moment]. \"[And I have always wanted to see what is under the ground|I have always wondered what it is like down there],\" {f.he} said. \"Tell me about it.\"")
        w.t("So {h} told of [roots like ladders and stones that glitter|sleeping seeds, warm tunnels and the sound of rain from below]. And {f} told of [clouds, and storms, and cities at night|winds that smell of oranges]. [They talked until the stars came out|Each of them listened with wide eyes].")
        w.say("h", "[When you tell it, I can almost see it.|I feel as if I had been there.] [It is nearly like flying.|]", "glad")
    w.t("{h} [never forgot it|talked of it for weeks]. And when the sparrows laughed again, {h.he} [only smiled|did not mind].")
    close(w, "self", "the sky", "that night {h} dreamed of clouds, and in the dream they smelled of rain and bread.", "after that, the two of them met every evening, one to tell of high things and one to tell of low.")


def lost_egg(w):
    w.animal("h", sizes=(1, 2, 3), biome=w.pick(("wood", "farm", "pond", "wood")), without="fly")
    w.animal("f", w.pick(("crow", "sparrow", "robin", "wren", "owl", "heron")), gender="f")
    w.animal("g", sizes=(2, 3, 4))
    w.place("p")
    opening(w)
    w.p()
    w.t("{day} {h} found an egg {p.at}. It was [blue with brown spots|white and smooth|small and still warm], and there was no nest [to be seen|anywhere near].",
        "{day} something round lay in {h.his} way. [It was not a stone|It was too warm for a stone]. It was an egg!")
    w.say("h", "[Somebody must be missing you.|You can't stay here. You will catch cold.|Who do you belong to?] [Let's find your mother.|Come, we will ask around.]", "soft")
    w.t("{h} wrapped it in [moss|a leaf|{h.his} scarf] and [set off|carried it very carefully].")
    w.t("first {h.he} came to {g.full}. \"Is this your egg?\" asked {h}. {g.the} [laughed|snorted|looked surprised]. \"[I don't lay eggs|Mine come without shells, thank goodness],\" {g.he} said."
        if w.slots["g"].species.noun not in ("duck", "frog", "toad", "newt", "heron", "swan", "goose", "hen", "rooster", "owl", "crow", "tortoise", "lizard", "parrot")
        else "first {h.he} came to {g.full}. \"Is this your egg?\" asked {h}. {g.the} [looked at it from all sides|turned it over gently]. \"[No, I am not missing one|It is a fine egg, but not mine],\" {g.he} said.")
    w.t("then {h.he} asked [a snake|a fish|a turtle]. \"[Wrong shape|Too small|Not one of mine],\" came the answer. \"[Try higher up|Ask someone with feathers].\"")
    w.maybe(0.5, "clouds gathered, and a cold wind blew. {h} [held the egg close|tucked the egg under {h.his} chin] to keep it warm.")
    w.p()
    w.t("<suddenly> there was a [tiny|small] sound: [tick, tick|crick, crack|tap, tap]. The egg had [a crack|a hole in it]!",
        "evening came. {h} sat down with the egg. And then it [moved|rocked a little]. [Crick, crack|Tap, tap], it went.")
    w.t("out came [a wet little head|a beak, and then a very wet chick]. It looked at {h} with one bright eye. \"[Mama|Peep]?\" it said.")
    w.say("h", "[Oh dear. I am not your mother.|Well, no, not quite.] [But I will look after you until we find her.|But don't worry, I won't leave you.]", "kind")
    w.t("at that moment [there was a rush of wings|someone cried out overhead]. Down came {f.full}. \"[My baby|There you are]!\" {f.he} cried. \"[The storm shook the nest|It rolled out of the nest], and I have been searching all day!\"")
    w.t("the chick looked from one to the other. Then it [snuggled|crept] under {f}'s wing, but it kept one [foot|tiny claw] on {h}.")
    w.say("f", "[You kept my little one warm.|Without you it would have frozen.] [You will always be family to us.|Come and visit whenever you like.]", "kind")
    close(w, "kind", "the little bird", "and when the chick learned to fly, the first place it flew to was {h}'s home.", "the chick's first word was \"Mama\", and its second was the name of {h.his} kind: \"{h.noun}\".")


def greedy(w):
    w.animal("h", w.pick(("bear", "pig", "raccoon", "badger", "monkey", "goat", "mouse", "goose", "puppy", "crow")), named=0.75)
    w.animal("f", sizes=(1, 2, 3))
    w.set("treat", "berries", "plums", "cherries", "figs", "mulberries", "strawberries", "ripe pears", "nuts")
    w.place("p")
    opening(w)
    w.p()
    w.t("{day} {p.at}, {h} came upon {treat}: [heaps and heaps of them|more than {h.he} could count].",
        "{day} {h} smelled something sweet. It came from {p}, where [there were {treat} everywhere|the ground was covered with {treat}].")
    w.say("h", "[All for me!|What luck!] [I won't tell anybody.|If I share, there will be less for me.|I shall eat every one of them.]", w.pick(("glad", "soft")))
    w.t("{h.he} ate [ten|one handful]. {h.he} ate [twenty|another]. {h.he} ate until [{h.his} belly was as round as a drum|{h.he} could hardly breathe], and then {h.he} ate [three|a few] more.")
    w.t("{f.full} came by. \"[Those look very good|My little ones are hungry],\" {f.he} [said|said politely].")
    w.say("h", "[There are none left for you.|Go and find your own.|I saw them first.]", "cross")
    w.t("{f} [went away without a word|looked at {h.him} for a moment and left].")
    w.p()
    w.t("that [night|evening], {h} had the worst [stomach ache|belly ache] of {h.his} life. {h.he} rolled to the left. {h.he} rolled to the right. [Nothing helped|{h.he} moaned so loudly that the whole neighbourhood woke up].")
    w.say("h", "[Oh, oh, oh!|My poor belly!] [I shall burst.|Will nobody help me?|I will never eat again.]", "sad")
    w.t("the door opened. It was {f}, with a [cup of hot mint tea|bunch of bitter herbs|warm stone wrapped in moss]. \"[Drink this|Take this],\" {f.he} said, [and asked for nothing|and sat with {h.him} until morning].")
    w.say("h", "[Why are you so good to me?|I gave you nothing, and you came all the same.] [I was so selfish.|I am ashamed.]", "soft")
    w.say("f", "[You were hungry, and then you were silly.|Everyone is greedy once.] [Now you know.|It will be better by morning.|]", "kind")
    w.t("when {h} was well again, {h.he} [picked the best of what was left|gathered what was left into a basket] and [took it to {f}|went from door to door with it]. [There was one for everyone|There was plenty for all].")
    close(w, "greed", "the {treat}", "and {h} had just one. It was the best of them all.", "\"Only one?\" asked {f}. \"Only one,\" said {h}, and patted {h.his} belly.")


def moon_in_pond(w):
    w.animal("h", biome=w.pick(("wood", "farm", "pond", "wood", "savanna")), sizes=(1, 2, 3))
    w.animal("f", sizes=(1, 2, 3))
    w.time = "night"
    opening(w)
    w.p()
    w.timed = True
    w.t("one night, {h} [went to the water to drink|could not sleep and went for a walk]. There in the [pond|water] lay the moon[, round and white|].",
        "one clear night, {h} looked into the [pond|pool] and [gasped|got a fright]. The moon had fallen in!")
    w.say("h", "[Poor moon!|It will drown!|It must be so cold down there.] [I have to get it out.|Somebody must help it.]", "shout")
    w.t("{h.he} [reached in with one foot|poked it with a stick], and the moon [broke into a hundred pieces|shook and broke]. \"[Oh no, I have broken it|What have I done]!\" But when the water grew still, it was [whole again|back in one piece].")
    w.t("{h.he} [fetched a net|fetched a bucket|made a rope of reeds]. {h.he} [pulled and scooped|scooped and scooped], and all {h.he} caught was [a wet leaf and an angry beetle|water, weeds and one old shoe].")
    w.p()
    w.t("{f.full} [came by|had come to see what all the splashing was about].", "\"What are you doing?\" asked a voice. It was {f.full}.")
    w.say("h", "[I'm saving the moon.|The moon fell in!] [Don't just stand there. Help me!|It won't let me catch it.]", "say")
    w.say("f", "[That is very kind of you.|I tried that myself when I was young.] [But have you looked up?|Now lift your head.]", "kind")
    w.t("{h} looked up. There was the moon, [high and safe in the sky|hanging over the trees, perfectly dry|as calm as ever]. {h.he} looked down. There it was again.")
    w.say("h", "[Are there two?|Which one is the real one?] [Or is the pond only dreaming of it?|]", "ask")
    w.say("f", "[The water likes it so much that it keeps a picture.|One to look at, and one to swim beside.|The pond is a mirror, and the moon likes to look in it.]", "soft")
    w.t("so they sat down together [on the bank|side by side] and looked at both. [A fish jumped right through the moon, and it did not mind|The frogs sang|The water grew still as glass].")
    close(w, "", "the two moons", "and on dark nights, when there was no moon at all, {h} said, \"It is only swimming somewhere else.\"", "\"Good night, moon,\" {h} said, once up and once down.")


def feared_one(w):
    w.animal("h", biome=w.pick(("wood", "wood", "pond", "savanna")), sizes=(1, 2), named=0.8)
    w.animal("f", w.pick(("lion", "hippo", "elephant") if w.biome == "savanna" else ("bear", "bear", "badger", "heron")), named=0.6)
    w.slots["f"].adjective = w.pick(("big", "fierce-looking", "dark", "silent"))
    w.place("p")
    opening(w)
    w.p()
    w.t("everyone {where} was afraid of {f.full} who lived {p.at}. \"[{f.he} growls|{f.he} has terrible eyes|{f.he} eats little ones for breakfast],\" they said.",
        "not far off, {p.at}, lived {f.full}. Nobody ever [went there|said hello to {f.him}]. They were all too afraid.")
    w.t("{h} [had believed it too|had never seen {f.him} up close|wondered if it was true].")
    w.t("{day} {h} [lost {h.his} way|chased a butterfly too far|ran from the rain] and came right {p.to}. And there [sat|was] {f.the}, [with {f.his} back turned|all alone].")
    w.t("{h} [froze|wanted to run]. But then {h.he} heard something. {f.the} was [crying|singing, very softly and very sadly|talking to a stone as if it were a friend].")
    w.p()
    w.say("h", "[Excuse me.|Hello?] [Are you sad?|Is something the matter?|Why are you all alone?]", "ask")
    w.t("{f.the} [jumped|spun around]. \"[You are not running away|Are you not afraid of me]?\" {f.he} [asked|said], [as if {f.he} could not believe it|blinking].")
    w.say("h", "[A little.|I was, until I heard you.] [Should I be?|Do you eat little ones for breakfast?]", "say")
    w.say("f", "[I eat nothing of the kind.|Me? I only growl because I have a sore throat.|I only look cross. It is the way my face is made.] [Nobody ever stays long enough to ask.|I would like a friend, but everyone runs.]", "sad")
    w.t("{h} sat down. They [shared {h.food}|talked all afternoon|played a game with pebbles], and {f.the} told a joke, [a very long one|a really terrible one], and {h} laughed so much that [{h.he} got the hiccups|the birds flew up].")
    w.t("when {h.he} came home, the others [were waiting|were worried sick]. \"[We thought you were eaten|Where have you been]!\" they cried. \"[At my friend's|I was having tea],\" said {h}.")
    w.t("the next day {h} took [one of them|two others] along. The day after, [five came|there were six]. [In the end|Before long] there was [a path|a little path worn in the grass] that led straight {p.to}.")
    close(w, "friend", "{f.the}", "and whenever somebody said, \"[They say|I heard]\", {h} asked, \"Have you been there to see?\"", "{f.the} still looked cross, but now everyone knew that it was only {f.his} face.")


def cannot_sleep(w):
    w.animal("h", sizes=(1, 2, 3, 4))
    w.animal("f")
    w.animal("g", skill="fly" if w.biome in ("wood", "pond", "farm", "savanna") else "")
    w.time = "night"
    opening(w)
    w.p()
    w.timed = True
    w.t("one night, {h} could not sleep. {h.he} [turned over|lay on {h.his} left side]. {h.he} [turned back|lay on {h.his} right side]. [The moon was too bright|The night was too quiet|{h.his} thoughts went round and round].",
        "it was late, and everyone was asleep. Everyone but {h}.")
    w.t("so {h.he} [got up|went out] and {h.went} to see {f.full}. \"[I can't sleep|Sleep won't come],\" said {h}. \"What do you do?\"")
    w.say("f", "[I count.|I drink something warm.|I curl up as small as I can.|I think of everything I ate today.] [That always works for me.|Try it.|]", "soft")
    w.t("{h} tried it. {h.he} [got as far as a thousand|did just as {h.he} was told], but [now {h.he} was wide awake|it did not help a bit].")
    w.t("next {h.he} asked {g.full}. \"[I rock in the wind|I listen to the leaves|I tuck in my head],\" said {g.the}. \"[Works every time|It is quite simple].\"")
    w.t("{h} [tried that, and got dizzy|tried that, and got a crick in {h.his} neck|tried that too, but {h.his} eyes stayed open]. {h.he} [sighed|yawned, but it was only half a yawn].")
    w.p()
    w.t("then {h.he} heard a [very small|tiny] voice. \"[I can't sleep either.|Is somebody there?]\" it said. It was [a baby bird|a young mouse|a tiny beetle|a little caterpillar], [shivering in the grass|all by itself].")
    w.say("h", "[What is the matter?|Are you afraid of the dark?] [Shall I stay with you?|Come, lean on me.]", "soft")
    w.t("{h} made [a bed of moss|room in the soft grass] and began to tell a story, about [a cloud that wanted to be a sheep|a star that came down for a drink|a river that went looking for the sea]. {h.he} spoke [slowly and softly|more and more slowly].")
    w.t("by the middle of it, the little one was asleep. {h} wanted to tell the end all the same. \"And then,\" {h.he} said. \"And then...\"")
    w.t("but nobody heard the end, because {h} was [asleep too|sound asleep as well].")
    close(w, "", "", "in the morning they all wanted to know how {h.he} had done it. \"I stopped trying,\" said {h}.", "the moon [looked down on them both|went on shining], and [the night was still|no one stirred until the sun was high].")


def build_home(w):
    w.animal("h", sizes=(1, 2, 3), biome=w.pick(("wood", "pond", "farm")))
    w.animal("f", sizes=(1, 2, 3))
    w.place("p")
    opening(w)
    w.p()
    w.t("{day} a storm [blew {h.his} home to pieces|knocked down {h.his} home]. When it was over, there was nothing left but [one stick|a puddle|the door]." ,
        "{h} wanted a new home, and {day} {h.he} began to build one {p.at}.")
    w.t("{h} [gathered twigs and leaves|collected straw and moss]. {h.he} built [fast|all morning]. It was [crooked, but it stood|pretty to look at]. Then the wind [puffed once|gave one sigh], and down it came.")
    w.say("h", "[Never mind.|Well!] I will make it [higher|bigger|faster] this time. [That must be the answer.|]", "say")
    w.t("the second one was [higher|bigger], and it fell [harder|even sooner]. {h} [sat in the middle of it with a leaf on {h.his} head|kicked a twig and sat down].")
    w.p()
    w.t("{f.full} was [working nearby|passing with a load of stones]. \"[May I say something|Would you like some advice]?\" {f.he} asked.")
    w.say("h", "[No, thank you. I can do it alone.|I don't need any help.]", "cross")
    w.t("{f} [nodded|shrugged] and went on [digging|stacking stones]. {h} [watched from the corner of {h.his} eye|pretended not to look]. {f.he} [laid the heavy things at the bottom|dug down before {f.he} built up|tested every branch before {f.he} used it].")
    w.t("<after_while> {h} [coughed|came a bit closer]. \"[Why do you do it like that|What is that for]?\" {h.he} asked.")
    w.say("f", "[Everything that stands up needs something to stand on.|A house begins under the ground.|Wind pushes. So I ask the wind first where it comes from.] [I learned it by falling down a lot.|Would you like to try?]", "kind")
    w.t("they worked side by side. {f} brought [mud and stones|flat stones], and {h} [wove the roof, which {h.he} was very good at|found the straightest sticks]. By evening there was [a roof, a door and a round window|a home with thick walls and a soft floor].")
    w.t("that night the wind came back. It [huffed|howled] and [shook the trees|threw the rain about]. But inside it was [dry|quiet and warm], and the two of them drank [acorn tea|mint tea|clover tea] and listened.")
    close(w, "friend", "the new home", "\"Alone I built two houses in a day,\" said {h}. \"Together we built one that stayed.\"", "the door was always open for {f}.")


PLOTS = (small_helps_big, winter_stores, boaster, trickster, strange_noise, wants_to_fly, lost_egg, greedy,
         moon_in_pond, feared_one, cannot_sleep, build_home)
