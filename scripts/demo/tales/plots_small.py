"""Stories of more animals, of the sea and the snow, and of small things."""

from . import things
from .frame import close, opening, scene


def beyond_reef(w):
    w.animal("h", biome="sea", sizes=(1, 2), named=0.8)
    w.animal("f", biome="sea", sizes=(3, 4))
    w.elder("m", relations=("mother", "father", "grandmother"))
    w.place("p")
    opening(w)
    w.p()
    w.t("\"[Never swim past the striped rocks|Do not go where the water is dark],\" {h.his} {m.noun} always said. But {h} [wondered what was out there|thought about it every day].")
    w.t("{day} a [strange light|shining bubble|song without words] drifted by, and {h} followed it, {p.to} and [further still|beyond].")
    w.t("the water grew [colder|darker]. The ground [fell away|was gone]. {h} looked back, and [the reef had vanished|everything was blue on every side].")
    w.say("h", "[Which way is home?|I should not have come so far.] [It all looks the same.|Can anybody hear me?]", "sad")
    scene(w, 0.4)
    w.p()
    w.t("a [great|long] shadow came up from below. {h} [hid in a curl of weed|made {h.himself} as small as a grain of sand]. But it was only {f.full}.")
    w.say("f", "[You are a long way from home, small one.|What is somebody like you doing out here?] [The deep is no place to be alone.|Are you lost, or only looking?]", "kind")
    w.say("h", "[Both, I think.|I only wanted to see.] [Now I want to go home.|Do you know the way to the reef?]", "soft")
    w.t("\"[Everyone gets lost once|I was lost out here myself],\" said {f.the}. \"[Listen|Close your eyes]. [Home has a sound|Every reef has its own song].\" {h} listened. And there it was: [a crackle, like tiny drums|the clicking of a thousand shrimps], very faint.")
    w.t("they swam towards it together. {f} [told of whales that sing to the moon|showed {h.him} fish that carry their own lamps], and {h} [forgot to be afraid|asked a hundred questions].")
    w.t("at the striped rocks, {h.his} {m.noun} was [swimming in circles|waiting]. There were no angry words, only a very [long|tight] hug.")
    w.say("m", "[I was so afraid for you.|I thought the sea had swallowed you.] [Next time you want to see the deep, we will go together.|You have a whole life for far-off places.]", "soft")
    close(w, "", "", "now and then a great shadow passes the reef, and {h} swims out a little way to say hello.", "{h} still wonders about the deep, but now {h.he} knows the song that leads home.")


def sea_cleanup(w):
    w.animal("h", biome="sea", sizes=(1, 2), named=0.7)
    w.animal("f", biome="sea")
    w.place("p")
    opening(w)
    w.p()
    w.set("item", "a brass bell", "an old boot", "a silver spoon", "a glass bottle", "a teapot without a lid", "a pocket watch", "a red umbrella", "a hand mirror")
    w.t("{day} [something fell from above|something sank slowly down] {p.at}. It was {item}. Nobody in the sea [had ever seen such a thing|knew what it was].")
    w.t("\"[It is a hat|It must be a hat],\" said [a shrimp|an old eel]. \"[It is a house|It's a bed],\" said [a snail|a starfish]. \"[It is dangerous|Don't touch it],\" said {f.full}.")
    w.t("{h} [swam around it three times|tapped it gently|looked inside]. \"[I think it is a musical instrument|I think it wants to be something new],\" {h.he} said.")
    w.t("everybody [wanted it|talked at once]. They [pushed|pulled], they [argued all day|shouted bubbles], and soon [nobody was speaking to anybody|the water was all stirred up and cloudy].")
    w.p()
    w.say("h", "[Stop!|Please listen.] [It fell for all of us, or for none.|We were happy before it came.] [Why don't we take turns with it?|]", "shout")
    w.t("so on Monday it was [a hat|a table], on Tuesday [a cradle for the baby seahorses|a hiding place for a shy crab], on Wednesday [a drum|a boat for the snails], and on Sunday [it rested|they had a party around it].")
    w.t("{f} [came last|was the last to try it]. {f.he} [sat in front of it for a long time|looked at it from all sides], and then {f.he} [smiled|laughed]. \"[It is not so dangerous|I take it back],\" said {f.the}. \"I should like it on Thursdays, please.\"")
    w.t("then a [storm|strong current] came and carried it off [into the deep|as suddenly as it had come]. The friends looked at the empty place in the sand.")
    w.say("h", "[What shall we do on Mondays now?|It's gone. But we are still here.] [We can meet all the same.|]", "say")
    close(w, "share", "", "and so they did, every day of the week.", "nobody in the sea ever learned what it had really been for, and it did not matter.")


def snow_friend(w):
    w.animal("h", biome="snow", named=0.9)
    w.animal("f", biome="snow", named=0.8)
    w.place("p")
    opening(w)
    w.p()
    w.t("{h} was [the smallest on the ice|no good at sliding], and {h.he} was always [last|left behind]. When the others [raced|played], {h.he} [watched|built little towers of snow].")
    w.t("{day} {h} {h.went} {p.to} and heard [a thin cry|somebody call]. {f.full} was [on a piece of ice that was drifting away|down in a crack in the ice].")
    scene(w, 0.5)
    w.say("f", "[Help me!|Please don't go away!] [I'm too heavy to climb out.|I don't dare to jump.|I can't get back!]", "shout")
    w.t("{h} [looked around|called the others], but there was nobody near. {h.he} [thought of what {h.he} was good at|looked at the snow]. {h.he} could not slide, and {h.he} could not run. But {h.he} could build.")
    w.p()
    w.t("so {h} built. {h.he} [pushed snow and patted it|rolled snowballs], one [step|block] on another, [until {h.his} feet were numb|while the wind blew in {h.his} face]. Slowly [a stair|a bridge] grew across the gap.")
    w.say("h", "[Now, one foot after the other.|Come, it will hold.] [Look at me, not at the water.|Don't hurry. I'll count for you.]", "kind")
    w.t("{f} took a step. The snow [creaked|groaned], but it held. One more. One more. And then {f.he} was [safe|across], and behind {f.him} [the bridge fell into the sea|it all came down with a splash].")
    w.t("when the others heard of it, they [wanted to see|came to look]. \"[Can you teach us|Will you show us how you did it]?\" they asked. Soon there was [a whole town of snow|a castle with four towers] {p.at}, and {h} was [the builder in charge|in the middle of it all].")
    close(w, "self", "", "and {f}? {f.he} carried the snow, and said it was the best job in the world.", "that night the green lights danced over the ice, and two friends watched them side by side.")


def two_on_bridge(w):
    w.animal("h", biome=w.pick(("wood", "farm", "savanna")), sizes=(2, 3, 4), without="fly")
    w.animal("f", sizes=(2, 3, 4), without="fly")
    w.animal("g", sizes=(1,))
    opening(w)
    w.p()
    w.t("{day} {h} wanted to cross the [narrow bridge|log over the stream]. In the very middle {h.he} met {f.full}, who was coming the other way.")
    w.t("there was [no room to pass|room for only one].")
    w.say("h", "[Go back, please. I was here first.|I'm in a hurry. You will have to turn round.]", w.pick(("say", "cross")))
    w.say("f", "[I was here first!|I never go backwards.|So am I.] [You go back.|I have the longer way home.|]", "cross")
    w.t("so they stood there. The sun [climbed|moved along]. {h} [looked at the sky|tapped one foot]. {f} [looked at the water|began to hum, to show that {f.he} did not care].")
    w.t("noon came. Both of them were hungry. {h} had [bread|a basket of plums] but nothing to drink. {f} had [a jug of milk|a bottle of juice] but nothing to eat. [Neither said a word|They both pretended not to notice].")
    w.maybe(0.5, "it began to rain. It rained on the one, and it rained on the other, [and there was no difference|quite fairly].")
    w.p()
    w.t("then {g.full} came along, looked up at the two of them, and [went straight between their legs|walked underneath, from one side to the other].")
    w.say("g", "[Are you waiting for somebody?|Is this a game?] [May I ask why you are standing here?|What do you win?]", "ask")
    w.t("{h} [opened {h.his} mouth and closed it again|did not know what to say]. {f} [went red|coughed]. [It did seem rather silly|Now that someone asked, neither of them could remember why it was so important].")
    w.say("h", "[If you lie down flat, I could climb over you.|You know, my plan is not really so urgent.|Let's both go back, and cross one after the other.] [And afterwards you can have half of my lunch.|We could eat together first.]", "kind")
    w.say("f", "[I was going to say the same.|That's not a bad idea.] [And I have something to drink.|]", "glad")
    w.t("they sat down in the [wet|] grass and [ate and drank|shared it all out]. It turned out that {h} had been on the way to [the place {f} came from|see {f}'s cousin], and {f} to [the place {h} came from|{h}'s own garden].")
    close(w, "proud", "the bridge", "the next time they met on the bridge, both said, \"After you!\" and that took almost as long.", "and they laughed about it for the rest of their lives.")


def concert(w):
    w.animal("h", w.pick(("frog", "toad", "crow", "donkey", "goose", "badger", "bear", "pig", "snail")), named=0.8)
    w.animal("f", w.pick(("owl", "swan", "robin", "heron", "cat")))
    opening(w)
    w.p()
    w.t("there was to be a [concert|song evening] [under the full moon|on midsummer night], and everyone {where} [practised|was singing]. {h} wanted to sing too.")
    w.t("{h} opened {h.his} mouth. Out came [a sound like a rusty hinge|a noise like a falling bucket|something between a cough and a saw]. [Two leaves fell off a tree|A beetle fainted].")
    w.t("{f.full}, who [led the choir|knew all about music], [listened to the end|waited politely|coughed].")
    w.say("f", "[Perhaps you would like to sell the tickets?|Thank you, that will do.|How interesting.] [Not everyone can sing.|We need somebody to hold the lamp.]", "say")
    w.t("{h} [went away quietly|crept off], [sat down by the water|hid in the reeds] and [said nothing for the rest of the day|let {h.his} head hang]. \"[It's true|They are right],\" {h.he} thought. \"[My voice is ugly|I sound like a gate].\"")
    w.p()
    w.t("the great night came. The moon [rose|came up], the crickets tuned their fiddles, and {f} was about to begin. But [a thick fog came down|the wind began to howl], and [no one could find the way to the clearing|half of the singers were lost in the dark].")
    w.t("they called, but the [fog|night] swallowed their fine, soft voices. [Only silence answered|Nobody could hear them].")
    w.t("then {h} took a deep breath, and [let out the loudest, roughest sound of {h.his} life|sang, as loudly as {h.he} could]. It [went through the dark like a horn|rolled over the hills]. \"[This way|Over here]!\" it seemed to say.")
    w.t("one after another, [wet and shivering|following the sound], the singers [came out of the mist|found the clearing]. Nobody was missing.")
    w.say("f", "[We would all be lost without you.|I was wrong about your voice.|That was the most beautiful sound I ever heard.] [Will you sing with us?|Every choir needs one voice like that.]", "soft")
    w.t("so {h} sang the low notes, one at a time, [like a drum|like footsteps under the tune], and [all agreed that the songs had never sounded so good|the others sang around them like birds around a tree].")
    close(w, "self", "the concert", "two more leaves fell off the tree, but nobody minded.", "and whenever there is fog, they ask {h} to sing.")


def firefly(w):
    w.being("h", "firefly", name=w.pick(("Glim", "Flick", "Ember", "Dot", "Lumi", "Spark")), adjective=w.pick(("small", "young", "little", "tiny")))
    w.biome = "wood"
    w.animal("f", sizes=(1, 2, 3))
    w.place("p")
    w.time = "night"
    w.t("there was once {h.full} whose light was [very weak|no brighter than a grain of sand].",
        "once upon a time, in a dark wood, there lived {h.full}.",
        "{h} was {h.a} with a [weak|pale] little light.")
    w.t("the other fireflies [drew circles of gold in the air|shone like lamps]. When {h} tried, [it flickered and went out|there was only a tiny green dot].")
    w.say("h", "[What is the use of a light like mine?|I might as well be a beetle.] [Nobody can even see me.|The moon laughs at me, I am sure.]", "sad")
    w.p()
    w.timed = True
    w.t("one night, when there was no moon, {h} heard somebody crying {p.at}. It was {f.full}, [who had lost the way|who was afraid of the dark].")
    w.say("f", "[It's so dark.|I can't see my own nose.] [I want to go home.|The other lights are so bright that they hurt my eyes.]", "sad")
    w.say("h", "[I'm not very bright.|My light is small.] [But I could fly just in front of you.|But I can stay close.|It is enough for one step, and then for the next.]", "soft")
    w.t("so they went, step by step. {h} showed {f} [a root|a stone], and [a puddle|a thorn bush], and the place where the path bent. [A big light would have shown the whole wood, with all its shadows|There was only ever one step to see, so there was nothing to be afraid of].")
    w.t("\"[Tell me something|Talk to me],\" said {f}. And {h} told {f.him} [the names of the stars|what the night smells like from above]. Before they knew it, they stood at {f}'s own door.")
    w.say("f", "[You have the best light in the wood.|I would not trade you for the moon.] [It is just as big as it needs to be.|It was not too much and not too little.]", "glad")
    w.t("{h} [glowed|blushed], and for a moment {h.his} light was [warm and golden|almost bright].")
    close(w, "self", "", "since then, whenever a little one is afraid at night, somebody says, \"Call {h}.\"", "high above, one very small star seemed to nod.")


def little_boat(w):
    noun, where, work = w.pick((("boat", "in the harbour", "carried fish and letters"), ("tugboat", "in the harbour", "pulled big ships to the quay"), ("train", "in the valley", "carried milk and mail"),
                                ("bus", "in the mountains", "carried people to market"), ("tractor", "on a farm", "pulled the hay cart"), ("ferry", "on the river", "carried people across")))
    w.being("h", noun, name=w.pick(("Peg", "Bertie", "Daisy", "Old Tom", "Dolly", "Pip", "Gus", "")), adjective=w.pick(("little", "old", "small", "red", "blue", "rusty")))
    h = w.slots["h"]
    h.gender, h.he, h.him, h.his, h.himself = ("n", "it", "it", "its", "itself")
    h.unique = not h.name
    w.being("f", noun, name=w.pick(("Thunder", "Royal", "Captain", "Silver Arrow", "Grand Duke")), adjective=w.pick(("big", "new", "shiny", "fast")))
    f = w.slots["f"]
    f.gender, f.he, f.him, f.his, f.himself = ("m", "he", "him", "his", "himself")
    w.slots["place"], w.slots["work"] = where, work
    w.t("once upon a time, {place}, there was {h.full}.", "there was once {h.full} that {work}.", "{place} there worked {h.full}.", "{h.the_adj} {work}, day in, day out, {place}.")
    w.t("every day [it did its work|it went back and forth], [chug, chug, chug|puff, puff, puff], in [rain and sunshine|all weathers]. [It was not fast, and it was not fine|Its paint was coming off], but it was never late.")
    w.t("then a new one came: {f.full}. He had [a golden stripe|a horn like a trumpet] and [a very loud voice|no patience at all].")
    w.say("f", "[What is that old thing?|Do they still let you out?|Make way, make way!] [You belong in a museum.|I can do your work in half the time.]", "glad")
    w.t("{h} [said nothing|only puffed]. But the people [liked the new one|wanted to go fast], and soon {h} stood [in a corner|behind a shed], with [a spider in the window|leaves on the roof].")
    w.p()
    w.t("then [the winter|a great storm] came. [Snow fell for three days|The wind howled for three days]. {f}, fast and shiny, [got stuck|broke down] on the very first morning. [He was too heavy|He was not made for that].")
    w.t("and [up on the hill|on the other side], a [child was ill|baby was about to be born]. The doctor [had to get there|stood waiting with a bag], and there was no way.")
    w.say("h", "[Let me try.|I know the way with my eyes shut.] [I'm slow, but I don't stop.|I have been through worse.]", "say")
    w.t("they [brushed off the leaves|lit the fire] and [off it went|out it went], chug, chug, into the [white|storm]. It [slipped|shook]. It [groaned|shivered]. But it knew [every bend|each turn of the way], and it did not stop.")
    w.t("at midnight [a light was seen|a small bell was heard]. {h} had [arrived|made it]! The doctor ran inside, and in the morning [the child smiled|there was a new small cry in the world].")
    w.say("f", "[I was wrong.|I have been very rude.] [Will you teach me the way?|How did you do that?|I am fast, but you are brave.]", "soft")
    w.t("they gave {h} a new coat of [red|blue|green] paint, [and the children chose the colour|and a bell]. From then on the two of them worked [side by side|together]: {f} [on the fast days|when there was a hurry], and {h} when it mattered most.")
    close(w, "", "", "chug, chug, chug. If you listen on a stormy night, you can still hear it.", "it was still slow, and nobody ever said so again.")


def lost_treasure(w):
    w.animal("h", sizes=(1, 2, 3), named=0.75)
    w.animal("f", sizes=(1, 2, 3))
    w.thing("x", things.TREASURES)
    w.place("p")
    w.place("q")
    opening(w, thing=True)
    w.p()
    w.t("{day} the {x} was gone. {h} looked [everywhere at home|in every corner], then {p.at}, then {q.at}. [No {x}|Nothing at all].",
        "{day} {h} came home from {p}, and the {x} was not there any more. {h.he} turned everything [upside down|inside out].")
    w.say("h", "[Who has seen my {x}?|My {x} is gone!] [Someone must have taken it.|It can't have walked away.]", w.pick(("sad", "shout", "cross")))
    w.t("{h} began to [look at the neighbours in a funny way|wonder]. Why did [the crow|the magpie|the weasel] look so pleased? Why had {f.full} [been so quiet lately|gone by twice that morning, with something behind {f.his} back]?")
    w.t("\"[You took it|It was you],\" {h} said to {f}. {f} [went pale|looked hurt]. \"[I did not|It wasn't me],\" said {f.the}, and [walked away|shut the door].")
    w.p()
    scene(w, 0.4)
    w.t("that evening {h} [sat down to think|went to fetch water]. And there, [in {h.his} own bed, deep under the moss|hanging from a twig where {h.he} had rested], was the {x}. [{h.he} had put it there {h.himself}|{h.he} had left it there, and had simply forgotten].")
    w.t("{h} was [not even glad|hot with shame]. {h.he} thought of {f}'s face. {h.he} [did not sleep that night|could not eat].")
    w.t("[the next morning|as soon as it was light], {h} {h.went} to {f}'s door. {h.he} [knocked very softly|stood there a long time before {h.he} knocked].")
    w.say("h", "[I was wrong, and I am sorry.|I found it. It was my own fault.] [I said a bad thing about you.|I should have asked, not shouted.] [Here, I want you to have it.|Can we be friends again?]", "soft")
    w.t("{f} looked at {h}, then [opened the door wide|smiled a little]. On {f.his} table lay [a half-finished gift|a small bundle of leaves]. \"[This is what I was hiding|That was behind my back]. It was for your birthday,\" said {f.the}.")
    w.t("they [laughed until they cried|ate the birthday cake a day early], and [from then on|ever after] the {x} [lived one week with {h} and one week with {f}|had its place on a nail by the door, where nobody could forget it].")
    close(w, "honest", "the {x}", "and before {h} ever said \"It was you\" again, {h.he} always looked under {h.his} own bed.")


def letter(w):
    w.animal("h", w.pick(("snail", "tortoise", "mouse", "hedgehog", "duck", "mole", "donkey")), named=0.85)
    w.animal("f")
    w.animal("g", sizes=(2, 3, 4))
    w.place("p")
    w.place("q")
    opening(w)
    w.p()
    w.t("{h} carried the letters for everyone {where}, in a [brown bag|bag made of one big leaf].",
        "{day} {h} was given a letter to carry. \"[It is for {f}|Take it to {f}],\" they said, \"and please don't lose it.\"")
    w.t("this letter was for {f.full}, who lived [on the far side of the hills|behind the marsh|three valleys away]. On it was written: \"[Important|Quick, please].\"")
    w.t("{h} [set off at once|tied it to {h.his} back]. It was a long way {p.to}, and it was hot. {h} {h.went} [slowly|steadily] [on and on|without a rest].")
    w.t("{g.full} came by. \"[Stop and play|Come and swim with us]!\" said {g.the}. \"[A letter can wait|Nobody will know].\"")
    w.say("h", "[I'd love to, but I promised.|On the way back, perhaps.] [Somebody is waiting for this.|A letter that waits gets cold.]", "say")
    scene(w, 0.6)
    w.p()
    w.t("near {q} [the wind took the letter|{h.he} stumbled, and the letter fell in the stream]. {h} [ran after it|jumped in after it] and [caught it by one corner|got it back, a bit wet]. [The writing was smudged, but you could still read it|{h.he} dried it on a warm stone and went on].")
    w.t("it was [evening|already dark] when {h.he} knocked at {f}'s door. {f} was [sitting alone at the table|about to blow out the candle].")
    w.say("h", "[A letter for you.|Post!] [I'm sorry it took so long.|I came as fast as I could, which is not very fast.]", "say")
    w.t("{f} [opened it very carefully|read it twice]. It said: \"[I am sorry about our quarrel. Please come and see me|You have a new little niece, and she has your nose|Happy birthday. I have not forgotten you].\"")
    w.t("{f} [began to cry and to laugh|danced around the table]. \"[I have been waiting for this for a year|I thought everybody had forgotten me],\" {f.he} said. \"[Come in, come in|You must be tired].\"")
    w.t("there was [warm soup|hot tea] and a soft bed, and in the morning {h} had an answer to carry back. It was [thick|long], and it smelled of [flowers|honey].")
    close(w, "patience", "", "on the way back {h.he} played a little, just for an hour, because there was no hurry any more.", "\"Slow, but sure,\" they wrote on {h.his} bag, and {h} was proud of it.")


def feud(w):
    w.animal("h", biome=w.pick(("wood", "farm", "pond")), sizes=(1, 2, 3), named=0.8)
    w.animal("f", sizes=(1, 2, 3), named=0.8)
    w.set("fence", "a hedge", "a wall of stones", "a ditch", "a row of thorns")
    w.set("crop", "strawberries", "lettuce", "peas", "radishes", "sunflowers")
    opening(w)
    w.p()
    w.t("next door lived {f.full}. They had not spoken for [years|a whole summer]. It had begun with [a borrowed rake|a loud party|a muddy footprint|a joke about tails], and nobody knew any more who was right.")
    w.t("between their gardens there was {fence}, and it grew [higher every year|a little every time one of them was cross].")
    w.t("when {h} sang, {f} [banged on a pot|shut the window]. When {f} laughed, {h} [slammed the door|coughed very loudly].")
    w.t("in {h}'s garden grew {crop}, [but nothing else|the finest in the land]. In {f}'s garden [was the only well|was the only apple tree|were the only bees], [and each could have used what the other had|though neither would ask].")
    w.p()
    w.t("{day} there was no sound from next door. No [pot|window]. No [cough|song]. {h} [waited|listened]. [It was strange how quiet it was|The quiet was worse than the noise].")
    w.say("h", "[That is not like {f}.|What if something is wrong?] [Not that I care.|I'll just have a look.|]", "soft")
    w.t("{h} [climbed over|crept across], [scratched {h.his} nose|tore {h.his} best waistcoat], and looked in at the window. {f} lay in bed, [hot and red|pale and shivering].")
    w.t("{h} did not think for long. {h.he} [fetched water|lit the stove], [made tea|cooked a thin soup], and [put a cool leaf on {f}'s head|sat beside the bed all night].")
    w.t("in the morning {f} opened one eye. They looked at each other.")
    w.say("f", "[Your singing is not so bad, you know.|It was too quiet without your coughing.] [I missed it.|I used to listen behind the door.]", "soft")
    w.say("h", "[I don't remember what we quarrelled about.|It was my fault. Or yours. Or the rake's.] [Shall we stop?|Let's begin again.]", "kind")
    w.t("[that spring|before the month was out], they took away {fence}, [bit by bit|working side by side], and made [one big garden|a bench] where it had been. [There was a table in the middle, with two chairs|The {crop} grew better than ever].")
    close(w, "friend", "{f}", "they still argue, of course, but now they do it over tea.", "and when {h} sings, {f} bangs the pot, in time.")


def old_one(w):
    w.animal("h", w.pick(("fox", "owl", "tortoise", "badger", "toad", "turtle", "elephant", "horse", "bear", "crow", "heron", "donkey")), named=0.5)
    h = w.slots["h"]
    h.adjective = "old"
    w.animal("f", sizes=(1, 2), biome=w.biome, named=0.9)
    opening(w)
    w.p()
    w.t("{h.his} [eyes|ears|bones] were not what they had been, and {h.he} [slept a good deal|moved slowly]. \"There goes the old one, half asleep,\" said the young ones, [not quietly at all|when they thought {h.he} could not hear].")
    w.t("only {f.full} [liked to sit with {h.him}|came by every day]. \"[Tell me how it was before|Tell me one more],\" {f.he} would say, and {h} told of [the winter when the river froze to the ground|the year of the great wind|the summer without rain].")
    w.t("that year, [the summer was hot and dry|no rain fell for months]. The [stream|pool] shrank to a puddle, and then [to mud|the puddle was gone].")
    w.t("the strong ones [dug here and there|ran about]. The quick ones [searched the hills|went far and came back with nothing]. [Everybody was thirsty|The little ones cried].")
    w.p()
    w.say("f", "[You told me about the summer without rain.|There was a dry year when you were young, was there not?] [What did you do then?|Where did you find water?]", "ask")
    w.t("{h} closed {h.his} eyes. [For a long time {h.he} said nothing|They thought {h.he} had fallen asleep]. Then {h.he} [nodded|opened them again].")
    w.say("h", "[There was a white stone, shaped like a tooth.|There were three trees in a row.] [My grandmother showed it to me.|I was no bigger than you are.] [I do not see well now, but my feet remember.|]", "soft")
    w.t("{h} went first, slowly, [leaning on {f}|with {f} beside {h.him}]. The others followed. [Over the dry hill|Through the dust] they went, and [some laughed, and some were too thirsty to laugh|nobody spoke].")
    w.t("\"Here,\" said {h}. There was [nothing but stones|only sand]. They dug. [A foot down|Deep down] the earth was [dark|damp]. Then it was wet. And then, [cold and clear|with a gurgle], the water came.")
    w.t("everyone drank. [When they had drunk, it grew very quiet|Then they all looked at their feet]. \"[We are sorry|Forgive us],\" they said. And after that, {h} was never alone in the evenings: [there was always somebody small who wanted a story|they came from all sides to listen].")
    close(w, "", "the water", "{f} remembered the place, and one day {f.he} showed it to somebody smaller.", "old feet remember, they say in that land, and they say it with respect.")


def hiccups(w):
    w.animal("h", sizes=(1, 2, 3, 4), named=0.8)
    w.animal("f")
    w.animal("g")
    opening(w)
    w.p()
    w.t("{day} {h} [ate {h.his} breakfast too fast|laughed with {h.his} mouth full], and then it happened. Hic! {h} had the hiccups.",
        "{day} {h} woke up with the hiccups. Hic! {h.he} [fell out of bed|bumped {h.his} head]. Hic!")
    w.t("[{h.he} held {h.his} breath|{h.he} counted to twenty]. Hic! [{h.he} drank some water|{h.he} hopped in a circle]. Hic! It [was no use|only got worse].")
    w.t("{f.full} came to help. \"[Roll down the hill|Spin around ten times|Tell it to go away],\" {f.he} said. {h} tried it. [Now {h.he} was dizzy too. Hic!|It did not help. Hic!]")
    w.t("{g.full} knew better. \"[You need a fright|Somebody must scare you],\" said {g.the}, and [jumped out from behind a bush|shouted \"Boo!\" as loudly as {g.he} could]. {h} [squealed|jumped], but then: hic!")
    w.say("h", "[I shall, hic, hiccup for ever.|Nobody will, hic, want to be near me.] [How shall I sleep?|I can't even talk properly.]", "sad")
    w.p()
    w.t("soon [everyone around|the whole neighbourhood] had come. One [brought a feather|knew a magic word]. Another [sang backwards|pulled {h.his} ears]. They [argued|all talked at once], and it got so [loud|funny] that [nobody could hear the hiccups any more|someone started to giggle].")
    w.t("then {f} said hic. Everybody looked at {f.him}. And {g} said hic. And then, from the back, [a very small one|the smallest of them all]: hic!")
    w.t("{h} looked at them and began to laugh. {h.he} laughed until [{h.he} had to lie down|tears ran down {h.his} face]. The others laughed too, [hic, ha, hic, ha|holding each other up].")
    w.t("when {h.he} could breathe again, {h} noticed something. [It was gone|{h.he} waited. Nothing came]. The hiccups [were gone|had left {h.him}]! \"[They have moved to you|I'm cured],\" {h.he} said.")
    w.say("f", "[Thank you, hic, very much.|Well, hic, good for you.]", "say")
    close(w, "", "the hiccups", "it took three days until the last hiccup had left the land, and nobody had ever had so much fun.", "since then, {h} chews {h.his} breakfast slowly. Most of the time.")


PLOTS = (beyond_reef, sea_cleanup, snow_friend, two_on_bridge, concert, firefly, little_boat, lost_treasure,
         letter, feud, old_one, hiccups)
