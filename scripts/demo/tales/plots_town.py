"""Stories of children out and about: friends, lessons, small adventures."""

from .frame import close, opening, scene


def stuck_kite(w):
    w.child()
    w.child("f")
    w.place("p", among="in the park|in the meadow|on the hill|by the old bridge|in the orchard|on the beach")
    w.thing("x", None, "kite")
    opening(w, thing=True)
    w.p()
    w.t("{day} [the wind was strong|a good wind came up], and {h} [took|carried] the {x} {p.to}.",
        "{day} {h} went {p.to} [to fly the {x}|with the {x} under {h.his} arm].")
    w.t("up it went, [higher and higher|over the roofs|above the trees], [dancing|diving and climbing] like a [bird|fish in a blue sea].",
        "the {x} [tugged at the string|leapt into the air] and {h} [ran below it, laughing|let out more and more string].")
    w.t("<suddenly> [a gust|a puff of wind] [snatched it|blew it sideways] [into a tall <tree>|onto the roof of the mill], and [there it stayed|it hung there like washing].")
    w.t("{h} [pulled the string|shook the trunk|threw a stick], but the {x} [only flapped|did not move|stuck fast]. {h.he} [jumped as high as {h.he} could, which was not high enough|tried to reach it with a branch, but it was too short].")
    w.say("h", "[It's no use.|I'll never get it down.|Oh, come down!] [It is much too high.|It will be there for ever.|]", "sad")
    w.p()
    w.t("a {f.noun} who was [passing by|sitting on a wall|walking a small dog] [stopped|looked up]. {f.his} name was {f}.",
        "\"[That is a good kite|What a fine kite]!\" said a voice. It was {f}, a {f.noun} {h} had [never spoken to before|only seen at school].")
    way = w.pick(("ladder", "shoulders", "wind", "bird"))
    if way == "ladder":
        w.say("f", "[My uncle has a ladder.|There's a ladder behind our barn.] [If you take one end, I'll take the other.|It's heavy, but there are two of us.]", "kind")
        w.t("they carried it [together|between them], bumping into [a gate, a bush and a surprised goose|only two fences and one cow]. {h} held the ladder and {f} climbed.")
    elif way == "shoulders":
        w.say("f", "[Stand on my shoulders.|You are light and I am strong.] [I won't let you fall.|Together we are tall enough.]", "kind")
        w.t("{h} climbed up, [wobbling like a jelly|holding on to {f}'s hair]. {h.he} stretched out one arm, then one finger, and [got hold of the tail|hooked the string].")
    elif way == "wind":
        w.say("f", "[Wait. The wind will turn.|The wind put it there. The wind can bring it back.] [My grandfather is a sailor, so I know.|Let's sit down and have <snack>.]", "say")
        w.t("they sat in the grass and [talked about boats and teachers|shared <snack>]. When the wind [turned|changed], the {x} [shook itself loose|gave a little hop] and floated down [at their feet|like a leaf].")
    else:
        w.t("just then a crow landed beside the {x} and [tilted its head|looked it over]. {f} [whistled softly|held up a piece of bread].")
        w.t("the crow [pecked once at the knot|hopped along the branch, and the branch shook], and the {x} came [tumbling|sailing] down. \"[Thank you, crow|That bird has earned its bread]!\" said {f}.")
    w.t("the {x} had [a small tear|a broken stick|lost half its tail], but [that was soon mended|it could still fly|{f} had string in {f.his} pocket].")
    w.say("h", "[Do you want to hold it?|Would you like the next turn?|Come and fly it with me!]", "glad")
    close(w, "friend", "the {x} and {f}", "they took turns until [the sun went down|they were called for supper].", "the wind had taken a kite and brought a friend.")


def new_child(w):
    w.child()
    w.child("f")
    opening(w)
    w.p()
    w.t("{day} a new {f.noun} came to [school|the class]. {f.his} name was {f}, and {f.he} came from [far across the sea|a city with a thousand lamps|the mountains|a place where it never snowed].",
        "{day} a [new|] family moved into the [empty|yellow] house [across the street|by the bridge]. They had a {f.noun} named {f}.")
    w.t("{f} [stood by the fence|sat alone on the bench|kept to the wall] [and looked at {f.his} shoes|and said nothing|and held {f.his} bag very tight].",
        "at playtime, everybody ran about. Only {f} [stayed by the door|stood under a tree|did not move].")
    w.maybe(0.5, "\"[{f.he} never talks|{f.he} is strange],\" [somebody|one of the others] whispered.")
    w.t("{h} [remembered how it felt to be new|knew that feeling|thought of {h.his} own first day]. {h.his} [feet felt heavy|cheeks grew warm], but {h.he} [went over|walked right up to {f.him}].")
    way = w.pick(("lunch", "draw", "word"))
    if way == "lunch":
        w.say("h", "[Hello.|Hi.] [I have two apples.|My lunch is too big for one.|Do you like <cake>?] [Would you like some?|Would you like to share?]", "ask")
        w.t("{f} [looked up|nodded]. Then {f.he} [opened {f.his} own box|reached into {f.his} bag]. There were [little cakes|rice balls|sweet dumplings|sugared nuts] that {h} had never seen before.")
        w.t("they [swapped|traded], bite for bite. \"[This is good|I could eat ten of these]!\" said {h}. And {f} [laughed|smiled] for the first time.")
    elif way == "draw":
        w.set("tool", "a stick", "a piece of chalk", "a bit of charcoal")
        w.t("{h} did not know what to say, so {h.he} took {tool} and drew a [cat|whale|crooked house] on the ground.")
        w.t("{f} watched. Then {f.he} took it and gave the [picture a hat|picture a big moustache|picture a long tail]. [Soon they were both laughing|They drew until the bell rang].")
        w.say("f", "[Where I lived before, we drew on the walls.|I like your picture.] [My name is {f}. What is yours?|]", "soft")
    else:
        w.t("\"[Hello|Good morning]!\" said {h}. {f} answered with a word that {h} [did not know|had never heard]. They both [waited|blinked].")
        w.t("{h} pointed at the [sun|tree|bird] and said its name. {f} said it too, and then gave {f.his} own word for it. It sounded like [a bell|water|a small song].")
        w.t("by the end of the [week|day], {h} knew [ten|seven] new words, and {f} knew [ten|twelve], and the best of them was \"friend\".")
    w.p()
    w.t("[the next day|the next morning], {f} was [waiting for {h} at the gate|already at the gate]. [They did everything together after that|From then on there were two of them].",
        "after that, nobody stood alone by the fence. [There was always a game with room for one more|{h} and {f} saw to that].")
    close(w, "kind", "{h.his} new friend", "and when the next new child came, it was {f} who walked over first.", "\"I was so afraid,\" {f} told {h} later. \"[Then you came|But not for long].\"")


def learn(w):
    w.child()
    w.child("f") if w.chance(0.4) else w.elder("f", relations=("grandfather", "grandmother", "father", "mother", "uncle", "aunt"))
    skill, place, wrong, right = w.pick((
        ("ride a bicycle", "in the square|in the park|in the schoolyard", "[wobbled left, wobbled right and fell into a hedge|rode straight into a haystack|fell off before {h.he} had begun]", "the wheels [hummed|sang], the wind was in {h.his} hair, and nobody was holding on"),
        ("swim", "at the pond|by the river|on the beach", "[sank like a spoon|swallowed half the water|splashed like a wet dog]", "{h.he} kicked, and breathed, and kicked, and the water carried {h.him}"),
        ("whistle", "in the garden|in the orchard|on the hill", "[blew and blew, but only air came out|made a sound like a leaky kettle|sprayed crumbs everywhere]", "out came a clear, round note, and a blackbird answered"),
        ("skip stones", "by the river|at the pond|on the beach", "[threw, and plop, it sank|hit a duck's dinner|got wet knees and nothing else]", "the stone hopped once, twice, three, four, five times"),
        ("skate", "at the pond|by the old bridge|in the square", "[sat down hard on the ice|slid backwards into a snowbank|held on to every tree]", "{h.he} glided, quite straight, with both arms out like wings"),
        ("tie a sailor's knot", "at the harbour|by the fountain|in the garden", "[tied {h.his} thumb to the rope|made a tangle like a bird's nest|tied it so well that it would not open and so badly that it would not hold]", "the rope went over, under and through, and it held"),
        ("juggle", "in the square|in the park|in the garden", "[dropped one on {h.his} toe|lost a ball to the dog|broke one egg and then another]", "one, two, three, the balls went round and round as if on a wheel"),
        ("climb the big tree", "in the orchard|in the park|in the meadow", "[slid back down|scraped one knee|got no higher than the first branch]", "{h.he} stood on the highest branch and could see all the way to the sea"),
        ("play the fiddle", "in the garden|in the park|by the fountain", "[made a noise like an angry cat|made the dog howl|broke a string on the first note]", "it was a real tune, small and sweet, and it went all the way to the end")))
    w.slots["skill"] = skill
    w.place("p", among=place)
    opening(w)
    w.p()
    w.t("more than anything, {h} wanted to learn to {skill}.", "{day} {h} made up {h.his} mind: {h.he} would learn to {skill}.",
        "[everyone else|all the other children] could {skill}. Only {h} could not.")
    w.t("{h.he} went {p.to} and tried. {h.he} " + wrong + ".", "{day} {h} tried it {p.at}. {h.he} " + wrong + ".")
    w.t("{h.he} tried again. [This time it was worse|It went no better|The second time was just like the first]. [Two crows|Three ducks|Some big boys] [watched and seemed to laugh|laughed].")
    w.say("h", "[I can't do it.|I'm no good at this.|I will never learn.] [I give up!|It's too hard for me.]", w.pick(("sad", "cross")))
    w.p()
    w.t("{f} [had seen it all|was sitting on a bench nearby|came and sat down beside {h.him}].")
    w.say("f", "[Do you know how often I fell?|It took me a whole summer.|I was worse than you, and for longer.] [You are looking at your feet. Look where you want to go.|Don't hold your breath.|Go slowly first. Fast comes later.|Try it once more, but smile this time.]", "kind")
    w.t("{h} [wiped {h.his} nose|took a deep breath|brushed off {h.his} knees]. {h.he} tried again, and again, and [the day after that too|every day that week].")
    w.t("[little by little it got better|each time it was a bit less bad]. And then, [on a Tuesday|one windy day|when {h.he} had stopped counting], [it happened|it worked]: " + right + ".")
    w.say("h", "[I'm doing it!|Look at me!|Did you see that?] [I can {skill}!|I did it, all by myself!|]", "shout")
    w.t("{f} [clapped|threw {f.his} hat in the air|laughed with joy]. \"[I never doubted it|I knew you would],\" {f.he} said.")
    close(w, "try", "the day {h.he} learned to {skill}", "[a week later|in the spring], {h} saw a small child trying to {skill}. {h.he} sat down nearby. \"Do you know how often I fell?\" {h.he} asked.",
          "and the crows? {h} was quite sure they nodded.")


def lost_animal(w):
    w.child()
    w.elder("m", relations=("mother", "father"))
    w.place("p")
    w.set("pet", "puppy", "kitten", "little dog", "grey cat", "tame duck", "parrot", "baby goat", "white rabbit")
    w.set("mark", "a blue ribbon", "a tiny bell", "one white paw", "a torn red collar", "a patch over one eye")
    if "duck" in w.slots["pet"] or "parrot" in w.slots["pet"]:
        w.set("mark", "a blue ribbon round one leg", "a silver ring round one leg")
    opening(w)
    w.p()
    w.t("{day} {h} found a {pet} {p.at}. It had {mark} and [looked very lost|was shivering|was all alone].",
        "{day} [something soft brushed against {h.his} leg|{h} heard a small sad sound] {p.at}. It was a {pet} with {mark}.")
    w.say("h", "[Hello, you.|Oh, you poor thing.] [Where do you belong?|Are you lost?|Who is looking for you?]", "soft")
    w.t("The {pet} [leaned against {h.him}|looked up at {h.him} with round eyes|followed {h.him} home]. {h} gave it [some water|a bit of bread|something to eat] and [a name, just for now|the warmest corner].")
    w.say("h", "[May I keep it?|Can it stay with us?] [Please!|I would take good care of it.]", "ask")
    w.say("m", "[I can see that you like it.|It's a dear little thing.] [But somebody may be crying for it tonight.|But what if someone is searching for it?|First we must ask who has lost it.]", "kind")
    w.t("{h} knew that {m} was right, [but it hurt a little|though {h.he} wished it were not so].")
    w.p()
    w.t("so {h} [painted a sign|wrote ten little notes] that said \"[Found|Found today]: one {pet}\", and put [it up in the square|them on every door in the street].",
        "{h} went from door to door. \"[Is this yours|Have you lost someone]?\" {h.he} asked. [\"No,\" said the baker.|The baker shook his head.] [\"No,\" said the tailor.|The teacher shook her head.]")
    w.set("owner", "an old man with a stick", "a small girl with red eyes", "an old woman in a black shawl", "a sailor just off his ship", "a boy on crutches")
    w.t("[at sunset|the next day|two days later], there was a knock. [On the step stood|It was] {owner}. The {pet} [gave a cry and leapt up|went wild with joy|rushed to the door].",
        "at the last house the door opened, and there stood {owner}. The {pet} [gave a cry of joy|jumped right into the house].")
    w.t("\"[There you are|You have found my friend],\" came the answer, [half laughing, half crying|in a shaky voice]. \"[I have not slept|I looked everywhere]. How can I thank you?\"")
    w.t("{h} [swallowed hard|stroked the {pet} one last time|had a lump in {h.his} throat]. \"[May I visit|Could I come and see it sometimes]?\" {h.he} asked. And [of course {h.he} could|the answer was yes, every day if {h.he} liked].")
    close(w, "kind", "the {pet}", "so {h} did not get a {pet}, but {h.he} got two new friends.", "[in the spring|some months later], the {pet} had [little ones|a family], and one of them had [a white nose|a crooked ear]. It was for {h}.")


def snow_day(w):
    w.child()
    w.child("f")
    w.time, w.timed = "morning", True
    if w.chance(0.5):
        w.t("[in the night|overnight] it had snowed, and in the morning the whole village was [white and silent|gone under a white blanket].",
            "{h} woke up and [the light was different|everything was strangely quiet]. It had snowed!",
            "one winter morning, {h} looked out of the window and [shouted for joy|could not believe {h.his} eyes]. Snow!")
    else:
        opening(w)
        w.t("one [cold|winter] morning, [the whole world was white|snow lay on every roof].")
    w.t("{h} [ate breakfast in four bites|put on two pairs of socks] and ran out to find {f}[, who was already throwing snowballs at a fence|].")
    w.say("f", "[Let's build a snowman!|Let's make the biggest snowman in the world!] [Bigger than the door!|With real buttons!|]", "shout")
    w.t("they rolled [a ball, and a bigger ball, and a ball that two could hardly push|three great balls]. They gave the snowman [a carrot nose|a pine cone nose], [stone|coal|button] eyes and [a mouth of twigs|a wide smile].")
    w.p()
    way = w.pick(("cold", "bird", "tall"))
    if way == "cold":
        w.t("\"[He looks cold|Something is missing],\" said {h}. {h.he} [thought|looked at {h.himself}], took off {h.his} own [scarf|hat], and put it on the snowman.")
        w.t("in the night, {h} [looked out|woke once]. The moon was bright. And [it seemed to {h.him}|{h.he} was almost sure] that the snowman [lifted one hand|bowed|gave {h.him} a wink].")
        w.t("in the morning, [there were strange round tracks in the snow|the snowman stood on the other side of the gate], and what {h.he} had given away hung on {h.his} door, [folded|brushed clean] and [warm|quite dry].")
        topic = "the snowman"
    elif way == "bird":
        w.t("the next day, the carrot was [shorter|full of holes]. The day after, [it was gone|only a stump was left]. \"[Someone is eating his nose|We have a nose thief],\" said {f}.")
        w.t("they [hid behind the woodpile|waited behind the hedge] until [their toes went numb|their breath froze on their scarves]. Then they saw [a thin brown hare|a hungry robin|a small deer], [nibbling|pecking] very politely.")
        w.say("h", "[It must be so hungry.|There is nothing to eat in the snow.] [Let's bring some more.|Let it have the nose.]", "soft")
        w.t("[from then on|all that winter], they brought [a new carrot|seeds and apples] every day, and the snowman had [a different nose each morning|the best-fed guests in the village].")
        topic = "the hungry guest"
    else:
        w.t("but the head was [much too heavy|as big as a barrel]. They [lifted|pushed] and [puffed|groaned], and it [rolled back down|would not go up].")
        w.t("[the baker|the postman] stopped to [help|push]. Then [the teacher|two fishermen] came, then [a lady with a dog|somebody's grandmother], and soon [half the street|ten people] were [heaving and laughing|pushing together].")
        w.t("[up it went|one, two, three, and it was up]! Everyone [cheered|clapped their mittens]. Somebody fetched [hot chocolate|hot soup], and [nobody went back to work for an hour|they all stood around the snowman as if he were a fire].")
        topic = "the biggest snowman"
    close(w, "", topic, "[when spring came|in March], the snowman [melted into a puddle|became thin and small], and where he had stood, [snowdrops came up|the first crocus grew].",
          "\"[See you next winter|Good night, snowman],\" {h} whispered.")


def picnic(w):
    w.child()
    w.child("f")
    w.place("p", among="by the river|on the hill|in the meadow|in the orchard|at the pond|near the windmill")
    opening(w)
    w.p()
    w.t("{day} {h} and {f} packed a basket with <bread>, <cake> and a bottle of <drink>, and went {p.to}.",
        "{day} {h} and {f} went on a picnic. In the basket were <bread>, six <fruits> and <cake>.")
    w.t("<sky>, and they [spread the blanket|chose the flattest spot] and [ran off to play first|went to put their feet in the water].")
    w.t("when they came back, [the basket was open|something was wrong]. [The cake was gone|One bun was missing|Half of the food had vanished].")
    w.say("f", "[Who took it?|Somebody has been here!] [Look, tracks!|There are crumbs in the grass.]", "shout")
    w.t("a trail of crumbs led [through the grass|along the bank|under the fence]. They followed it [on tiptoe|on hands and knees], [past a stump|over a little bridge] and around [a bush|a big stone].")
    w.p()
    w.set("thief", "a very round hedgehog with jam on its nose", "a long line of ants, each with one crumb", "a duck and her seven ducklings", "a young fox with a bun in its mouth", "a goat with a napkin round its neck", "a small brown bear cub", "two crows, arguing over a crust", "a thin stray dog with sad eyes")
    w.t("there sat {thief}.", "and who was it? It was {thief}.")
    w.t("{h} wanted to [shout|be cross], but {h.he} [had to laugh|could not]. \"[It must have been hungry|Well, at least somebody liked it],\" {h.he} said.",
        "{f} [burst out laughing|sat down in the grass and laughed]. \"[I think we have guests|That is the best-mannered thief I have ever seen],\" {f.he} said.")
    w.t("they sat down [nearby|a little way off] and ate what was left: [two plums and a piece of cheese|some bread and the last apple]. [It tasted wonderful|Nothing had ever tasted better].")
    w.maybe(0.6, "when they got up to go, [a feather|a shiny stone|one perfect acorn] lay [on the blanket|in the empty basket]. [Perhaps it was an accident. Perhaps it was not|\"I think that is for the cake,\" said {h}].")
    close(w, "share", "the picnic", "the next time, they packed [a second basket|one bun more than they needed].", "they carried the empty basket home between them, singing.")


def lost_way(w):
    w.child()
    w.elder("m")
    w.set("where", "the forest", "the big market", "the fog", "the cornfield", "the old part of town", "the snowy hills")
    opening(w)
    w.p()
    w.t("{day} {h} went into {where} with {m}. \"[Stay close to me|Don't let go of my hand],\" said {m}.")
    w.t("but {h} saw [a white butterfly|a strange green beetle|a bird as blue as ink|a cat with one white ear|a trail of small footprints], and {h.he} [only wanted to look|went just three steps to see|followed it for a moment].")
    w.t("when {h.he} turned around, [{m} was gone|there was no one there]. [Everything looked the same|Every way looked alike].")
    w.say("h", "[{m.call}?|{m.call}! Where are you?]", "shout")
    w.t("[Nobody answered|Only an echo came back]. {h} [felt {h.his} heart beat faster|bit {h.his} lip|wanted to run], [and stood there like a post|but then {h.he} remembered what {m} had told {h.him}].")
    w.p()
    way = w.pick(("stay", "sound", "marks", "guide"))
    if way == "stay":
        w.t("\"If you are lost, [stay where you are|hug a tree|sit down] and [sing|make a noise],\" {m} had said. So {h} sat down and sang [every song {h.he} knew|in a loud, shaky voice].")
        w.t("{h.he} sang [the one about the frog|about the moon] twice. [At the third song|Somewhere in the middle of it], another voice joined in[, far away and then nearer|].")
    elif way == "sound":
        w.t("{h} closed {h.his} eyes and listened. [There was the wind. There was a bird|Far off, a dog barked]. And [then|under it all], [very thin|faintly], [the church bell|the old mill wheel].")
        w.t("\"[I know that sound|That is near home],\" {h.he} thought. {h.he} walked towards it, stopping to listen [every ten steps|again and again].")
    elif way == "marks":
        w.t("{h} looked at the ground. There were {h.his} own footprints. [Step by step|One by one], {h.he} followed them back: [past the broken fence|around a puddle], [over the little stream|by the crooked post].")
        w.t("where the prints stopped, {h.he} looked for [a bent twig|other signs], and there was [the red ribbon {h.he} had dropped|the apple core {h.he} had thrown away].")
    else:
        w.t("a [big brown dog|white goat|small owl|grey donkey] [came along|was standing there] and looked at {h.him}. It [turned|went a little way], stopped, and looked back.")
        w.say("h", "[Do you want me to follow you?|Do you know the way?]", "ask")
        w.t("It [went on|led {h.him}], always [a few steps ahead|waiting at every corner], until {h.he} [saw a light|heard someone calling {h.his} name].")
    w.t("and there was {m}, [out of breath and pale|calling and calling]. {m.he} [lifted {h} off the ground|hugged {h} so hard that {h.he} squeaked].")
    w.say("m", "[I was so worried.|There you are!|I looked for you everywhere.] [Are you all right?|How did you find the way?]", "shout")
    w.say("h", "[I was scared, but I remembered.|I'm sorry I let go.] [I did what you told me.|I won't run off again.|]", "soft")
    close(w, "brave", "{where}", "on the way home, neither of them let go of the other's hand.", "{h} held on tight all the way home, [and so did {m}|just to be sure].")


def market(w):
    w.child()
    w.elder("m", relations=("mother", "father", "grandmother", "grandfather"))
    opening(w)
    w.p()
    w.set("buy", "a loaf of bread", "six eggs", "a bag of flour", "a jug of milk", "a ball of wool", "a fish for supper")
    w.t("{day} {m} gave {h} a [silver|shiny] coin. \"[Go to the market|Run to the market] and buy {buy},\" {m.he} said. \"[And don't dawdle|And come straight back].\"")
    scene(w, 0.5)
    w.set("poor", "an old man with no coat", "a boy whose cap was empty", "a woman with a broken cart", "a singer whose voice had gone", "a small girl who had lost her penny")
    w.t("at the market there was {poor}. [People hurried by|Nobody stopped|Everyone looked the other way].",
        "by the gate sat {poor}. [Nobody|No one] seemed to notice.")
    w.t("{h} [turned the coin over in {h.his} pocket|walked past, and then came back|stood still]. {h.he} [thought of {m} and the empty table|looked at the coin, and at the sky, and at the coin again].")
    w.say("h", "[Take this.|Here, this is for you.] [You need it more than we do.|I wish it were two.]", "soft")
    w.t("in return, {h} was given [a small bag of seeds|an old wooden flute|a button with a star on it|a folded piece of paper]. \"[It is all I have|It will bring you luck],\" said the stranger.")
    w.p()
    w.t("{h} walked home [slowly|with empty hands]. What would {m} say?", "[all the way home|on the way back], {h} [worried|looked for the right words].")
    w.t("{m} listened to the [whole|] story. {m.he} [said nothing for a long time|put down {m.his} knitting|looked into the fire].")
    w.say("m", "[So there is nothing for supper.|That was our last coin.] [But I am proud of you.|And I would have done the same.|I have a kind child, and that is better than supper.]", "kind")
    w.t("just then [there was a knock|somebody knocked]. It was [the baker|the neighbour|the fisherman], who [had seen it all|had heard about it in the market] and who had brought [a basket full of good things|{buy}, and a cake besides|bread, fish and a pot of honey].")
    w.say("h", "[Would you like to eat with us?|There's enough for all of us!|Come in and sit down.]", "glad")
    close(w, "kind", "the stranger at the market", "and the stranger's gift? {h} kept it all {h.his} life, and it did bring luck.", "that supper was the merriest they had ever had.")


def race(w):
    w.child()
    w.child("f")
    kind, start, prize = w.pick((("running race", "on the hill|in the park|in the meadow", "a golden cup"), ("boat race", "by the river|at the harbour|at the pond", "a blue flag"),
                                 ("sled race", "on the hill|near the windmill|in the meadow", "a silver bell"), ("wagon race", "on the hill|in the square|by the old bridge", "a big cake")))
    w.slots["race"], w.slots["prize"] = kind, prize
    w.place("p", among=start)
    opening(w)
    w.p()
    w.t("[every year|once a year], there was a {race} {p.at}. The winner got {prize}. [{h} had practised for weeks|This year {h} wanted to win].",
        "{day} there was a {race} {p.at}, and the prize was {prize}. {h} [had dreamed of it all year|had hardly slept].")
    w.t("\"[I'm going to win|Nobody can catch me],\" said {f}, who was [tall and quick|the fastest in the school|first at everything].")
    w.t("[bang|ready, steady, go]! Off they went. {f} [shot ahead|took the lead]. {h} was [close behind|second], then [third|almost level], then, just before the last bend, {h} was first.")
    w.t("[Nobody was in front of {h.him}|{h.he} could see the finish|The finish line was near]. [Just then|At that moment], {h.he} heard a cry behind {h.him}.")
    w.p()
    w.t("{f} [had fallen|lay on the ground] and was holding {f.his} [knee|ankle]. The others [rushed past|went by without stopping].")
    w.t("{h} looked at the finish. {h.he} looked back. [Then {h.he} turned around|It was not easy, but {h.he} turned round].")
    w.say("h", "[Can you stand?|Are you hurt?] [Lean on me.|Put your arm around my neck.|Hold on to me.]", "ask")
    w.say("f", "[But you were winning!|What are you doing? You were first!] [You could have won.|]", "sad")
    w.say("h", "[There is a race every year.|It's only a race.|It's no fun to win like that.]", "kind")
    w.t("they [crossed the line together, last of all|came in last, arm in arm|hobbled over the line]. And [the crowd|everyone] cheered louder for them than for the winner.",
        "when they came in, [long after the others|last of all], the whole crowd stood up and clapped.")
    w.t("{prize} went to [somebody else|a boy from the next village], but [that evening {f} knocked on the door|the next day {f} came by] with [a medal made of a bottle top|a cup made of clay, a bit crooked]. \"[First prize|For the real winner],\" it said.")
    close(w, "proud", "the race", "{h} hung it over {h.his} bed, and it was still there many years later.", "the next year they ran together, and [nobody remembers who won|they came in at the very same moment].")


def picture(w):
    w.child()
    w.adult("m", w.pick(("teacher", "painter", "librarian", "gardener")), named=0)
    art, thing = w.pick((("painting", "a picture"), ("singing", "a song"), ("making pots", "a bowl"), ("writing", "a poem"), ("carving wood", "a bird")))
    w.slots["art"], w.slots["made"] = art, thing
    opening(w)
    w.p()
    w.t("{h} loved {art}, but {h.he} never showed anyone. \"[It isn't good enough|They would only laugh],\" {h.he} thought.",
        "there was one thing {h} loved: {art}. But {h.he} did it in secret, [in the attic|behind the shed|when nobody was home].")
    w.t("{day} {m.the} told everyone about a [show|festival] [in the square|at the end of the month]. \"[Each of you may bring something|Everybody can take part],\" {m.he} said.")
    w.t("[All the others|The others] had [grand plans|loud ideas]. {h} [said nothing|made {h.himself} small]. But at night {h.he} [could not stop thinking about it|lay awake and thought].")
    w.t("{h} began to work on {made}. [It went wrong|The first one was terrible|It was not what {h.he} had wanted]. {h.he} began again. [That was a little better|The second one made {h.him} laugh].")
    w.t("on the day of the show, {h} [stood at the back|hid behind a curtain] with {h.his} [knees shaking|heart thumping]. \"[I can't|I'll just go home],\" {h.he} [whispered|thought].")
    w.p()
    w.t("then {h.he} saw [one of the little ones] who was [even more afraid|crying with fright], [holding a crumpled drawing|clutching a paper flower].")
    w.say("h", "[Are you scared too?|It's hard, isn't it?] [Let's go together. I'll hold your hand.|If you go, I'll go.]", "ask")
    w.t("and so they went up, hand in hand. {h} showed {made}. [There was silence|At first nobody spoke|You could have heard a pin drop].")
    w.t("then [an old woman wiped her eyes|somebody said, \"Oh!\"|one person began to clap, then two, then everyone].")
    w.say("m", "[Why did you hide this?|Where did you learn that?|That comes from the heart.] [Promise me you will make more.|We have an artist among us.]", "kind")
    w.t("{h} [blushed to the tips of {h.his} ears|did not know where to look], but [inside {h.he} glowed|{h.he} was smiling].")
    close(w, "self", "the show", "and the little one? The paper hung in the middle of the wall, where everyone could see it.", "the next morning {h} left the door open when {h.he} worked.")


def too_many(w):
    w.child()
    w.elder("m", relations=("grandmother", "grandfather", "father", "mother"))
    w.set("crop", "pumpkins", "plums", "apples", "carrots", "tomatoes", "pears", "beans")
    opening(w)
    w.p()
    w.t("that year, {m}'s garden [went mad|did too well]. There were {crop} [everywhere|in every corner|on the stairs, under the beds and in the bath].",
        "it had been a good summer, and now there were {crop}: {crop} in baskets, {crop} in buckets, even {crop} in the bath.")
    w.t("they ate {crop} [for breakfast and for supper|boiled, baked and raw|on Monday, Tuesday and Wednesday]. [The pile did not get smaller|There were still too many].")
    w.say("m", "[If I see one more of those {crop}, I shall scream.|What shall we do with them all?] [We can't let them go bad.|It would be a shame to waste them.]", w.pick(("sad", "cross")))
    w.t("{h} [sat on a bucket and thought|looked over the wall|scratched {h.his} nose]. [Across the street lived|Next door lived] [a family with nine children|old Mr Brand, who had no garden|a widow with a leaky roof]. And {h} had an idea.")
    w.p()
    w.t("{day} {h} [filled|loaded] the wagon and went from house to house. \"[Would you like some {crop}|Do you need any {crop}]?\" {h.he} asked. \"They cost nothing.\"")
    w.t("[people were surprised|nobody wanted to take them for nothing]. [One gave {h.him} an egg|The baker gave {h.him} a loaf]. [Another gave {h.him} a jar of honey|The fisherman gave {h.him} a herring]. [Old Mrs Finch gave {h.him} a story|Somebody gave {h.him} a song].")
    w.t("when {h} came home, the wagon was [fuller than before|full again], [but not with {crop}|only now with everything else].")
    w.t("\"[Now there is enough for a feast|We can't eat all this alone],\" said {m}, and [so they put a long table in the street|they asked everyone to come]. There was soup, and pie, and [a fiddle|dancing], until [the moon came up|the candles burned down].")
    close(w, "share", "the long table", "the next spring, {m} planted [twice as many {crop}|one more row], just in case.", "from that year on, they held the feast every autumn, and nobody could say who had started it.")


PLOTS = (stuck_kite, new_child, learn, lost_animal, snow_day, picnic, lost_way, market, race, picture, too_many)
