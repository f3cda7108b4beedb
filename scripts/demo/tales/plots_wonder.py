"""Stories with a little magic, and stories of people at their work."""

from .frame import close, opening


def shy_dragon(w):
    w.child()
    w.being("f", "dragon", name=w.pick(("Ember", "Smoke", "Cinder", "Ash", "Spark", "Grumble", "")), adjective=w.pick(("small", "young", "green", "shy", "old", "copper-coloured")))
    w.place("p", among="on the hill|in the meadow|by the old bridge|near the windmill")
    opening(w)
    w.p()
    w.t("{day} smoke rose from a cave {p.at}. \"[A dragon|There is a dragon up there]!\" [cried|shouted] the people, and [they locked their doors|they all ran indoors].",
        "a dragon lived in a cave {p.at}, or so people said. Nobody had ever dared to look.")
    w.t("{h} [wanted to know more|was more curious than afraid]. {h.he} took [a bun for the dragon|a lantern and a piece of cheese] and [climbed up to the cave|knocked on the rock].",
        "but {h} had heard something that sounded like a [sneeze|sob], and so {h.he} [went to the cave|climbed up to have a look].")
    w.t("inside sat {f.full}. [It was not much bigger than a horse|The dragon was trying to hide behind a very small rock].")
    way = w.pick(("fire", "cold", "lonely"))
    if way == "fire":
        w.say("f", "[Don't look.|Go away, please.] [I'm a dragon, and I can't breathe fire.|All I can make is smoke.|The other dragons laughed at me.]", "sad")
        w.t("{f} took a deep breath and blew. Out came [three soap bubbles|a little puff of steam|one warm breath that smelled of cinnamon]. {f.he} [hung {f.his} head|blushed green].")
        w.say("h", "[But that is wonderful!|Oh, do that again!] [Nobody needs a burnt village.|I know just the place for you.|Fire only burns, but this is useful.]", "glad")
        w.p()
        w.t("{h} led {f} down to [the bakery, where the oven had gone out|the washing lines, where the sheets would not dry|the school, where the children were freezing]. [The people screamed|The baker dropped his tray|Everyone hid].")
        w.t("{f} breathed, very gently. [Soon it was as warm as in June|The dough rose, the windows steamed up, and everybody felt better|In a minute all was warm and dry]. One by one, the people [came out|came closer].")
    elif way == "cold":
        w.say("f", "[Atchoo!|Please excuse me. Atchoo!] [I have a cold, and I can't stop.|Every time I sneeze, something catches fire.|I'm afraid I have burnt my own blanket.]", "sad")
        w.t("{h} [felt {f.his} forehead|came closer]. It was [as hot as a stove|very hot]. \"[You need soup|You need looking after],\" {h.he} said.")
        w.p()
        w.t("{h} ran home and came back with [a bucket of <soup>|seven scarves tied together|honey and hot milk]. {f} [sipped|drank it all] and sighed, and [only one small bush caught fire|the smoke turned from black to white].")
        w.t("after [three days|a week], {f.he} was well. \"[Nobody ever took care of me before|I shall never forget this],\" {f.he} said.")
        w.t("that winter, when [the snow closed all the roads|the river froze and the wood ran out], {f} came down and [melted a path from door to door|lit every stove in the village with one careful breath].")
    else:
        w.say("f", "[Are you going to scream?|You may scream now. Everyone does.] [I only came because I heard music.|I just wanted to hear the children sing.|I have baked a cake, but no one ever comes.]", "sad")
        w.t("{h} [did not scream|shook {h.his} head]. {h.he} sat down on a stone and [broke the bread in two|sang the longest song {h.he} knew]. {f} [closed {f.his} eyes|hummed along, so low that pebbles danced].")
        w.p()
        w.t("the next day was [the summer feast|the harvest dance|the mayor's birthday]. {h} came [with a guest|late], and behind {h.him}, [on tiptoe|with flowers around {f.his} neck], came {f}.")
        w.t("nobody moved. Then [the smallest child|old Mrs Finch] [walked up|held out a piece of cake] and said, \"[Can you give rides|Do you like plums]?\"")
        w.say("f", "[I would love to!|Yes, very much!|Oh, yes, please!]", "glad")
    w.t("after that, [the cave had curtains and a doormat|there was always a lantern in front of the cave], and the sign at the village gate said: \"[Beware of nothing|Home of a dragon. Please knock].\"")
    close(w, "friend", "the dragon", "and when strangers asked if the village was afraid of dragons, the people said, \"Only of running out of cake.\"", "{h} was [never cold again|the only one in school with a dragon for a friend].")


def sad_king(w):
    w.child()
    ruler, gender = w.pick((("king", "m"), ("queen", "f"), ("prince", "m"), ("princess", "f")))
    w.being("o", ruler, gender, adjective=w.pick(("old", "young", "rich", "great")))
    want, verb = w.pick((("laugh", "laughed"), ("sleep", "slept"), ("smile", "smiled"), ("eat", "ate")))
    w.slots["want"], w.slots["wanted"] = want, verb
    w.t("[long ago|once upon a time], there was {o.a} who could not {want}. [Nothing helped|It had been so for a year and a day].",
        "in a castle [on a rock|by the sea|with ninety-nine windows] lived {o.a} who never {wanted}.",
        "the {o.noun} of the land had not {wanted} for [a month|a hundred days].")
    w.t("[clowns came and went|doctors came with bottles and spoons|wise men came with heavy books]. [Cooks|Dancers] came, and [a man with a singing pig|a woman with forty trained fleas|a man who could stand on one finger]. {o.the} only [shook {o.his} head|sighed].")
    w.t("\"Whoever can help [shall have a wish|shall have a chest of gold],\" [cried the messengers|it was announced] in every village.")
    w.p()
    w.t("{h}, [a {h.noun} who sold matches|who kept the castle geese|who swept the castle yard|the gardener's child], [heard of it|had an idea]. \"[Let me try|I'd like to try],\" {h.he} said. [The guards laughed|The guards shrugged], but they let {h.him} in.")
    w.say("h", "[What did you do today?|When were you last outside?|What do you do all day long?]", "ask")
    w.say("o", "[I sit.|I sign papers.] [People bow to me, and then they leave.|I eat alone at a very long table.|And then I sit some more.]", "sad")
    w.t("{h} [had thought so|nodded]. {h.he} took {o.the} by the hand, [out through the kitchen|down the back stairs], past [the surprised cook|the sleeping dog], and into the [garden|fields].")
    w.t("first they [dug potatoes|chased a goose that had got out|carried water to the horses]. Then they [climbed a tree and ate apples|fell into a ditch|built a dam across the stream]. {o.the} had [mud on {o.his} crown|one wet shoe|straw in {o.his} hair].")
    w.t({"laugh": "a duck sat down on the royal hat, {o.the} looked at it, and from somewhere deep down [came a chuckle, and then a roar|came a sound like a rusty gate]. {o.he} laughed until {o.he} cried.",
         "sleep": "when evening came, {o.the} [leaned against a haystack|sat down under a tree], yawned once, and was asleep. {o.he} slept [until noon|for two days], with a smile on {o.his} face.",
         "smile": "then [a little calf licked {o.his} hand|a ladybird landed on {o.his} nose]. And slowly, like the sun coming over a hill, {o.the} smiled.",
         "eat": "at noon {h} shared {h.his} bread and [a raw onion|a piece of cheese]. \"What is this?\" cried {o.the}. \"It is the best thing I have ever eaten!\" And {o.he} ate every crumb."}[want])
    w.say("o", "[Name your wish.|Now choose your reward.] [You shall have anything.|What do you want most?|Gold? A horse? A house?]", "glad")
    w.say("h", "[I would like a garden for the children.|I wish for one holiday a week, for everybody.|A cow for my mother, please.|Come and work with us on Mondays.]", "say")
    w.t("and so it was done. [After that|From then on], the {o.noun} was often seen [in the fields with rolled-up sleeves|at the long table with twenty guests|feeding the geese], and [nobody bowed any more. They waved|{o.he} never had that trouble again].")
    close(w, "", "the {o.noun}", "{h} went back to {h.his} work, but now {h.he} had help.")


def lighthouse(w):
    w.adult("h", "lighthouse keeper", named=0.7)
    w.child("f")
    w.set("who", "{h.his} grandchild", "a fisherman's child", "the doctor's child")
    opening(w)
    w.p()
    w.t("every evening {h} climbed the [ninety-nine|hundred and ten|many] steps and lit the lamp. [Every morning {h.he} put it out|No ship had ever been lost on {h.his} rocks].")
    w.t("{f}, {who}, often came [to visit|with a pot of soup]. \"[Are you never lonely up here?|Why do you do it every night?]\" {f.he} asked.")
    w.say("h", "[Out there somebody is looking for this light.|I have the whole sea for company.] [I don't know their names, but I know they are there.|That is enough for me.]", "kind")
    w.t("[one night|one autumn night] a storm came. The waves [were as high as houses|climbed up the rocks], and the wind [roared|screamed like a gull].")
    way = w.pick(("ill", "lamp", "oil"))
    w.t({"ill": "and that night of all nights, {h} had [a fever|hurt {h.his} leg] and could not climb the stairs. [The lamp was dark|The tower stayed dark].",
         "lamp": "<suddenly> there was a crash. The wind had broken the glass, and the lamp [went out|was dead]. [The sea was black|There was no spare].",
         "oil": "{h} shook the can. There was no oil left. The boat that brought it had not come for [a week|days]."}[way])
    w.t("far out, {f} saw [a tiny red light|a sail] in the dark. \"[A ship|There is a ship out there]!\" {f.he} cried. \"It is coming [straight for the rocks|too close]!\"")
    w.p()
    if way == "ill":
        w.say("h", "[You must light it.|You know how. You have watched me often.] [Go slowly, and don't look down.|Count the steps, and you won't be afraid.]", "soft")
        w.t("{f} climbed. {f.he} counted every step[ aloud|]. The tower shook, the wind pulled at the door, but {f.he} [struck the match|lit the wick] with trembling fingers. The great lamp [woke|began to turn].")
    elif way == "lamp":
        w.say("f", "[We could make a light ourselves.|Then we need another light!] [Fetch every lantern in the village!|Call everyone!]", "shout")
        w.t("{f} ran from house to house. People came [in nightshirts and boots|out into the rain] with lanterns, lamps and candles in jars, and they [stood in a long row on the cliff|climbed the tower and filled the windows].")
    else:
        w.say("f", "[What else can burn?|We have to find something!]", "ask")
        w.t("they burned [the old chairs|the garden fence], then [the table|the bed], then {h}'s own wooden [boots|boat], on the flat rock before the tower. The fire [leapt|rose] as high as the roof.")
    w.t("out at sea, the ship [turned|swung round]. Slowly, slowly it [passed the rocks|slipped by], [so near that they heard the sailors cheer|into the safe harbour].")
    w.t("in the morning the captain came. \"[We were lost|I thought we were done for],\" he said, \"and then there was your light. [How can I thank you?|Who lit it?]\" And {h} [put a hand on {f}'s shoulder|pointed at {f}].")
    close(w, "brave", "the light", "from then on there were two keepers, a big one and a small one.", "and every night since then, somewhere on the dark sea, somebody looks for the light and finds it.")


def stopped_clock(w):
    w.adult("h", "clockmaker", named=0.6)
    w.animal("f", w.pick(("mouse", "sparrow", "bat", "robin", "kitten")), named=0.8)
    w.biome = "town"
    w.being("o", "mayor", gender="m" if w.slots["h"].gender == "f" else "f")
    opening(w)
    w.p()
    w.t("{day} the great clock [in the tower|on the square] stopped. [It said ten past three, and it went on saying so|Its hands stood still at noon].",
        "the great clock in the tower had never been late. Then, one Monday, it stopped.")
    w.t("without the clock, [the baker baked too late|school began in the dark], [the postman came twice|the train left early], and [the cows did not know when to come home|nobody knew when it was lunch].")
    w.t("\"[You must mend it|Get it going],\" said the mayor, [wringing {o.his} hands|quite red in the face]. {h} [packed {h.his} smallest tools|took {h.his} lamp] and climbed up the tower.")
    w.t("{h.he} [oiled the wheels|checked every wheel], [tightened the screws|wound the great spring] and [listened|held {h.his} breath]. [Tick|Tick, tock], said the clock, and [no more|stopped again].")
    w.p()
    w.t("then, behind the biggest wheel, {h.he} saw [two bright eyes|a bundle of hay that moved]. It was {f.full}, and beside {f.him}, in a nest of [wool and paper|straw and string], lay [three|four|five] tiny babies.")
    w.say("f", "[Please don't make it go.|Please, not yet.] [The wheel would crush our home.|I put a twig in the wheel, because my little ones sleep here.|It was the only warm place I could find.]", "soft")
    w.t("{h} [pushed back {h.his} glasses|sat down on the top step]. Down below, [the whole town was waiting|people were looking up]. [Up here|Before {h.him}], something very small was [asleep|breathing].")
    w.say("h", "[Well, well.|I see.|Hm.] [A clock can be late, but a baby can't be early.|Time can wait a little.] [How long do you need?|]", "kind")
    w.t("so {h} went down and told the mayor that the clock needed [a rare part|a rest]. It would take [three weeks|a month]. In the meantime, {h.he} [rang a hand bell every hour, day and night|walked through the town and called out the time].")
    w.t("every evening {h.he} carried [crumbs and milk|something good to eat] up the stairs. The babies grew [bigger every day|round and cheeky].")
    w.t("when they were big enough, {h} built them a [little house|box with a door] [right under the bell|in the corner], far from the wheels. Then {h.he} pulled out the twig, and the clock [went|began to tick] as if it had never stopped.")
    close(w, "kind", "the family in the tower", "the clock was one minute late from then on, and {h} never corrected it.", "and if you listen at night, between tick and tock, you may hear a very small snore.")


def magic_baker(w):
    w.adult("h", w.pick(("baker", "cook", "tailor", "shoemaker", "toymaker", "potter", "weaver")), named=0.7)
    w.set("good", *{"baker": ("bread",), "cook": ("soup",), "tailor": ("coats",), "shoemaker": ("shoes",), "toymaker": ("toys",), "potter": ("bowls",), "weaver": ("blankets",)}[w.slots["h"].noun])
    w.being("o", "stranger", adjective=w.pick(("old", "thin", "wet", "silent", "ragged")))
    opening(w)
    w.p()
    w.t("but nobody bought {h.his} {good} any more. [There was a big new shop in the next town|Times were hard], and the shelves [were full of dust|stayed full].",
        "business was bad. [A whole week went by without one customer|Some days nobody came at all].")
    w.t("{day} {o.a} came in, [leaning on a stick|shivering]. \"[I am cold and hungry|I have come a long way],\" {o.he} said, \"[and I have no money|but my purse is empty].\"")
    w.say("h", "[Then sit down by the fire.|Come in, come in.] [I don't have much, but half of it is yours.|Nobody leaves my door with empty hands.]", "kind")
    w.t("{h} gave {o.the} [the last of the soup|the best chair|a warm supper] and [a bed by the stove|{h.his} own blanket]. In the morning {o.the} was gone. On the table lay [a wooden spoon|a small bag of dust|a grey feather] and a note.")
    w.t("\"[Use it with love|Use me when you think of somebody],\" said the note. [Nothing more|That was all].")
    w.p()
    w.t("{h} [shrugged|laughed], but that day {h.he} used it, and thought of [old Mrs Finch, who was always cold|the teacher, who never laughed|a boy who was afraid of dogs].")
    w.t("and see: everyone who bought something that day [felt warm right down to the toes|remembered the happiest day of their life|felt brave]. Soon people [came from all around|stood in line down to the bridge].")
    w.t("a rich [merchant|man] heard of it. \"[Sell me the secret|I'll buy that thing],\" he said, and [put a heap of gold on the table|opened a chest of gold].")
    w.t("{h} [looked at the gold|thought of the stranger]. \"[It only works if you give something away|It won't work for gold],\" {h.he} said. The man did not believe it. He [took it by night|stole it], but in his hands it was [only a plain old thing|nothing special].")
    w.t("{h} was [sad|sorry] for a day. Then {h.he} [went back to work|lit the fire again], thinking of [each person|everyone] by name. And that evening {h.he} saw that everything turned out just as good as before.")
    w.say("h", "[So it was never in the thing at all.|It was the thinking of somebody.] [How odd, and how nice.|I could have known.]", "soft")
    close(w, "kind", "the stranger", "years later a traveller left a coin on the table and winked. {h} knew that wink.", "and there was always a chair by the fire for whoever came in from the cold.")


def giant(w):
    w.child()
    w.being("f", "giant", gender="m" if w.chance(0.5) else "f", name=w.pick(("", "Hob", "Magnus", "Bertha", "Tor", "Matilda")) , adjective=w.pick(("sleepy", "clumsy", "lonely", "gentle", "old")))
    f = w.slots["f"]
    if f.name in ("Bertha", "Matilda") and f.gender == "m" or f.name in ("Hob", "Magnus", "Tor") and f.gender == "f":
        f.name = ""
    opening(w)
    w.p()
    w.t("behind the mountain lived {f.full}. When {f.he} [snored|sneezed|walked about], [the cups rattled on every shelf|roof tiles fell off|the church bell rang by itself].")
    w.t("\"[Something must be done|This can't go on],\" said the people. [The soldiers were afraid|The mayor had a cold that day], so they sent {h}[, who had not said no quickly enough|, because {h.he} was the only one who asked to go].")
    w.t("{h} walked [for two days|from dawn to dusk] and came to a [shoe as big as a boat|door as high as a tower]. {h.he} [knocked with a stone|called as loudly as {h.he} could].")
    w.say("f", "[Who's there?|Is that a mouse?] [Speak up, I can hardly hear you.|Mind my toes.|Do come in. Nobody ever comes.]", "say")
    w.say("h", "[I've come from the village.|Good day. I live in the valley.] [You make the whole valley shake.|Nobody down there can keep a plate in one piece.]", "say")
    w.t("{f} [turned red|put a hand over {f.his} mouth]. \"[I had no idea|Oh, I am so sorry],\" {f.he} [whispered|said], and even the whisper [blew the curtains aside|made dust fall from the ceiling]. \"[I never wanted to frighten anyone|How dreadful].\"")
    w.p()
    w.t("they sat down and thought about it. [{h} asked for paper and pencil|{h} walked up and down the table].")
    w.t("they tried [a scarf made of forty blankets|shoes filled with hay|a pillow of clouds], and [that was better|it helped a little], but [it was not enough. Then {h} had an even better idea].")
    w.say("h", "[You are only loud because you have nothing to do.|All that strength, and nothing to do with it!] [Come and help us.|The river floods our fields every spring. Could you move it a little?|We need a bridge, and the stones are too heavy for us.]", "glad")
    w.t("so {f} came, [on tiptoe|stepping carefully between the houses], and [moved the river over with one finger|set the stones of the bridge in one afternoon|held up the old tower while the builders mended it].")
    w.t("the people [came out from under their tables|stared]. Then they [cheered|brought a bathtub full of soup]. [Children slid down {f.his} sleeves|Birds nested in {f.his} hat].")
    close(w, "", "the giant", "the cups still rattle now and then, but now the people only smile and say, \"The giant is having a good sleep.\"", "and every child in the valley can say they have had tea in a cup as big as a bed.")


def wish(w):
    w.child()
    w.elder("m")
    opening(w)
    w.p()
    w.set("giver", "a tiny man with a beard down to his boots", "a golden fish", "an old woman no taller than a broom", "a talking toad", "a star that had fallen into the well", "a very small fairy with a very big hat")
    w.t("{day} {h} found {giver}, trapped in an old fishing net, and cut the net open.",
        "{day} {h} was kind to {giver}, without knowing what it meant.")
    w.t("\"For that you get [one wish|a wish],\" came a voice. \"[Think well|But be careful]. It lasts until sunset.\"")
    way = w.pick(("big", "sweet", "nobody", "give"))
    if way == "big":
        w.say("h", "[I know! I want to be big.|I wish I were as tall as a tree.]", "shout")
        w.t("whoosh! {h} grew. {h.his} head [went through the leaves|rose above the roofs]. At first it was [grand|wonderful]: {h.he} could see [five villages|the sea], and the crows [flew past {h.his} knees|said good day].")
        w.p()
        w.t("but {h.he} could not [go into the house|pick up a cup|stroke the cat]. {h.his} friends [ran away|looked like beetles]. When {m} called {h.him} for supper, the bowl was [as small as a nutshell|no bigger than a button].")
        w.say("h", "[It's lonely up here.|I don't fit anywhere.] [I want to be small enough for a hug.|]", "sad")
        w.t("the sun went down. Whoosh! {h} was {h.himself} again, and [ran home as fast as {h.his} short legs could|jumped right into {m}'s arms].")
        topic = "being big"
    elif way == "sweet":
        w.say("h", "[I wish that everything I touch turned to cake!|I wish for a mountain of sweets!]", "shout")
        w.t("in a blink, half of the garden was made of cake. {h} ate [the gate|a chair], which tasted of [almonds|vanilla], and [the doorstep|a window], which was made of [sugar|toffee].")
        w.p()
        w.t("by noon {h.he} [felt sick|had a stomach ache]. {h.he} longed for [a glass of plain water|a boiled potato|a carrot]. But [the well was full of syrup|the carrots had turned to marzipan], and there was cream in {h.his} shoes.")
        w.say("h", "[I never want to see cake again.|Oh, for a piece of dry bread!]", "sad")
        w.t("at sunset, everything [changed back|was as before]. {m} put a bowl of [potatoes|cabbage soup] on the table, and {h} [ate three helpings|said it was the best meal in the world].")
        topic = "the potatoes"
    elif way == "nobody":
        w.say("h", "[I wish that nobody could tell me what to do!|I wish I could do whatever I want all day!]", "cross")
        w.t("and so it was. {h} [stayed in bed|slid down the stairs on a tray], ate [jam with a spoon|pudding for lunch] and [did not wash|jumped on every bed]. [Nobody said a word|No one said no].")
        w.p()
        w.t("but nobody said [\"Good morning\"|\"Well done\"] either, or \"Come here, let me see that knee.\" [{m} looked right through {h.him}|It was as if {h.he} were made of air].")
        w.say("h", "[This isn't what I meant.|I didn't want it like this.] [Please scold me!|Please ask me to wash my hands!]", "sad")
        w.t("when the sun had gone, {m} looked up. \"[Look at those hands!|What a sight you are!]\" {m.he} said. \"Wash, please.\" And {h} [hugged {m}|had never been so happy to wash].")
        topic = "the wish"
    else:
        w.t("{h} thought [of a pony|of gold], of [a ship|new shoes], of [a house of chocolate|a hundred toys]. Then {h.he} [heard {m} coughing|saw {m} come home, tired and bent|remembered the empty shelf at home].")
        w.say("h", "[Can I give it away?|I wish that {m.call} could rest for one day.|I'd like {m.call} to have the wish.]", "soft")
        w.p()
        w.t("\"[Are you sure|Nobody has ever asked for that],\" said the voice, [surprised|after a long silence]. \"[Very well|So be it].\"")
        w.t("when {h} came home, the floor was [swept|shining], the wood was [chopped|stacked], and {m} sat [in the sun with both feet up|by the window, humming]. \"[I feel ten years younger|What a strange and lovely day],\" {m.he} said.")
        topic = "the wish"
    close(w, "", topic, "since then, {h} has been careful with the words \"I wish\".", "and {h}? {h.he} never told anyone, and that was the nicest part.")


def treasure_map(w):
    w.child()
    w.child("f")
    w.elder("m", relations=("grandfather", "grandmother"))
    opening(w)
    w.p()
    w.t("{day} {h} and {f} found [an old map|a yellow paper with a red cross on it] [in a bottle on the shore|behind a loose brick|inside a dusty book|in the lining of an old coat].")
    w.say("f", "[A treasure map!|Do you see this? A cross!] [We'll be rich!|Let's go at once!|Where is the spade?]", "shout")
    w.t("\"[Forty steps from the well|Start at the old well|Begin at the crooked tree],\" it said, \"then [follow the stream|go towards the mill] [until you hear the bees|to the stone that looks like a sheep].\"")
    w.t("they [counted steps|walked] and [lost count|argued], [started again|got wet feet], [found the stone|heard the bees], and [crossed the stream on a log|crawled under a hedge].")
    w.maybe(0.5, "once they [dug up a boot|dug in the wrong place and found a very angry mole]. \"[That is not it|Not here],\" said {h}.")
    w.p()
    w.t("<at_last> the spade [hit something|went clonk]. It was a [rusty tin|small iron box]. [Their hands shook|They held their breath] as they opened it.")
    inside = w.pick(("toys", "letter", "seeds", "photo"))
    w.t({"toys": "there was no gold. There was a [wooden horse|spinning top], three [marbles|chestnuts], and a [bent spoon|slingshot]. On the lid someone had scratched two names.",
         "letter": "there was no gold in it. There was only a letter. \"Whoever finds this,\" it said, \"[has had a fine adventure|has a good friend, for the stone is too heavy for one]. That is the treasure. Now hide something of your own.\"",
         "seeds": "there were no jewels, only a [handful|bag] of dry brown seeds, and a note: \"Plant us.\"",
         "photo": "there were no coins, only an old photograph of two children, [laughing, with mud on their faces|holding a spade]."}[inside])
    w.say("f", "[That's all?|No gold?|Is that everything?] [All that digging for nothing.|]", "sad")
    w.t("they took it to {m}. {m.he} [went very quiet|looked at it for a long time], and then {m.his} eyes [filled with tears|began to shine].")
    w.say("m", {"toys": "[We buried that when I was eight years old.|That is my name, and that is my brother's.] [I thought it was lost for ever.|Who would have thought that I would see it again?]",
                "letter": "[I wrote that when I was as small as you.|That is my handwriting!] [It took sixty years for somebody to find it.|And it is still true.]",
                "seeds": "[My mother's blue flowers!|Those are the old roses from my mother's garden.] [Nobody has seen them for fifty years.|I thought there were none left in the world.]",
                "photo": "[That is me, and that was my best friend.|Look, I had a tooth missing.] [We swore we would come back for it.|We were looking for treasure too.]"}[inside], "soft")
    w.t("{h} and {f} looked at each other. [It was better than gold, after all|Perhaps it was a treasure after all].")
    w.t("the next day they [filled a tin of their own|drew a new map]. {h} [put in a marble|wrote a letter], {f} [put in a tooth|wrote down a secret], and they buried it [under the crooked tree|where nobody would look].")
    close(w, "friend", "the old tin", "somewhere it is still there, waiting for somebody with a spade.", "{m} kept the old things on the windowsill, where the sun could find them.")


def waiting(w):
    w.child()
    w.elder("m", relations=("father", "uncle"))
    w.set("boat", "the Swallow", "the Silver Gull", "the Good Hope", "the Marianne", "the Blue Star")
    opening(w)
    w.p()
    w.t("{m} was a [sailor|fisherman], and {h} did not see {m.him} for many weeks at a time. {m.his} ship was called {boat}.")
    w.say("m", "[I'll be back before the first snow.|I'll be home when the apples are ripe.] [That is a promise.|You keep the lamp lit, and I'll find the way.]", "kind")
    w.t("{h} [waved until the sail was a dot|stood on the pier until nothing was left to see]. Then the waiting began.")
    w.t("every evening {h.he} put [a lamp|a candle] in the window. {h.he} saved up [things to tell|one good thing a day] in a [jar|box]: [a button|a blue stone] for the day {h.he} [lost a tooth|learned to whistle], [a feather|a leaf] for the day [the cat had kittens|the baby walked].")
    w.t("the apples [grew ripe|fell]. The leaves [turned brown|blew away]. {boat} did not come. \"[The wind is against them|There were storms out there],\" people said in low voices.")
    w.p()
    w.t("one night the [fog|snow] was so thick that [you could not see your own hand|the harbour light was only a smudge]. {h} [could not sleep|got up]. {h.he} took [the lamp|the big bell from the hall] down to the end of the pier.")
    w.t("{h.he} [swung it to and fro|rang and rang] until {h.his} arms [ached|were numb]. [Nothing|Only the waves answered]. {h.he} [began to sing|sang to keep awake], the song that {m} [had taught {h.him}|always whistled].")
    w.t("and then, [very faint|far out in the grey], somebody whistled the second line.")
    w.t("{h} [sang louder|held {h.his} breath]. A [shadow|dark shape] came out of the [night|mist], [with torn sails|covered in ice]. It was {boat}!")
    w.say("m", "[I heard you before I saw anything.|We sailed towards your song.] [You brought us home.|I said I would find the way.|We would have passed the harbour by.]", "soft")
    w.t("they [emptied the jar on the kitchen table|sat up all night], and {h} told [everything, stone by stone|one story for each thing]. {m} [listened until the sun rose|laughed and wiped {m.his} eyes].")
    close(w, "patience", "", "the lamp stayed in the window[, lit or not|], just in case somebody else was looking for it.", "outside it [snowed|was cold], but [nobody in that house noticed|inside there was enough warmth for the whole town].")


def robot(w):
    w.being("h", "robot", "m", w.pick(("Bolt", "Rivet", "Tin", "Clank", "Tock", "Gizmo", "Copper")), w.pick(("little", "old", "rusty", "tin", "small")))
    w.child("f")
    w.t("once upon a time, there was {h.full}[| who lived in a shed| who worked in a toy shop].",
        "[at the back of|in] [a dusty shop|an old workshop|a barn] stood {h.full}.",
        "{h} was {h.a}. [He had one squeaky knee|He had lamps for eyes and a drawer in his chest].")
    w.t("he could [count to a million|lift a cart|peel potatoes in the dark], but he could not [laugh|dream|tell a joke|sing].")
    w.say("h", "[What is a friend?|What does it mean to be happy?|Why do people laugh?] [It is not in my book of rules.|I can't find it in my wires.]", "ask")
    w.p()
    w.t("{day} {f}, a {f.noun} [from the village|who was hiding from the rain], [came in|opened the door]. \"[Hello, you!|Oh, a robot!]\" {f.he} said.")
    w.t("{f} [oiled his knee|wiped the dust off his head|tied a ribbon around his arm]. \"Why did you do that?\" asked {h}. \"[Because you squeaked|Because I wanted to|Just so],\" said {f}.")
    w.t("they [played hide and seek, and {h} always lost because his lamps glowed|went to the river, and {h} made stones skip nine times|read books together, and {h} asked about every page].")
    way = w.pick(("battery", "flood", "scrap"))
    if way == "battery":
        w.t("in the winter {h} grew slow. His lamps [flickered|went dim]. \"[My spring is running down|I have very little power left],\" he said. \"[It was a good time|Thank you for everything].\"")
        w.t("{f} would not hear of it. {f.he} [went to every shop|took apart the old radio|asked the clockmaker], and [begged|searched|worked] until {f.he} had [a new spring|what {f.he} needed].")
        w.t("{f.he} [turned the key|closed the little door] and waited. [Nothing. Then a hum|For a minute it was still]. Then two small lights [came on|began to glow].")
    elif way == "flood":
        w.t("then the great rain came. The river rose, and {f} was [caught on a roof|stuck on a little island] with [a goat and two hens|the water all around]. Robots must not get wet. It was rule number one.")
        w.t("{h} [looked at the water|thought of the rule]. Then he walked in, up to his knees, up to his chest. [His sparks flew|His wheels ground and groaned]. He lifted {f} high over his head and carried {f.him} to dry land.")
        w.t("there he [stopped|stood still]. {f} [dried every screw|put him by the stove for nine days] and [talked to him the whole time|never left him]. On the tenth day, one lamp blinked.")
    else:
        w.t("one morning the shed was being cleared. \"[That old thing goes to the scrapyard|It's only junk],\" said a man. {f} [ran after the cart|stood in front of the door with both arms out].")
        w.say("f", "[He is not junk. He is my friend!|You can't take him!] [He can peel potatoes in the dark!|I'll give you everything I have!]", "shout")
        w.t("{f} paid with [{f.his} whole piggy bank|{f.his} skates, {f.his} kite and {f.his} best marble]. The man [scratched his head|shrugged] and left without the robot.")
    w.say("h", "[Something is strange. My chest is warm, but I am not overheated.|There is a funny feeling behind my drawer.] [Is that what it means?|Is this it?]", "soft")
    w.say("f", "[Yes.|I think so.] [That's it exactly.|That is what a friend is.]", "kind")
    w.t("and {h} made a sound[, like a kettle and a bell|]. It was [a laugh|his very first laugh].")
    close(w, "", "", "he wrote it down in his book of rules, on the last page, in big letters: \"Friend: see {f}.\"", "he still could not [sing|dance], but he did it anyway.")


PLOTS = (shy_dragon, sad_king, lighthouse, stopped_clock, magic_baker, giant, wish, treasure_map, waiting, robot)
