"""Stories of ordinary days with a surprise: a runaway hat, an echo, a loose tooth, an old tree."""

from .frame import close, opening, scene


def runaway_hat(w):
    w.child()
    w.child("f")
    w.set("hat", "straw hat", "red hat", "blue cap", "woolly hat with a bobble", "yellow rain hat", "green felt hat")
    w.place("p")
    opening(w)
    w.p()
    w.t("{day} a [rude|cheeky|wild] wind [came round the corner|blew down the street] and [snatched|stole|lifted] the {hat} right off {h}'s head.",
        "{day} {h} was walking {p.to} when, whoosh, {h.his} {hat} [flew off|was gone].")
    w.say("h", "[Stop!|Come back!|Hey!] [That's my hat!|Somebody catch it!|]", "shout")
    w.t("the hat [rolled|bowled|skipped] along the street, [between the legs of a policeman|past three surprised hens|under a cart of melons], and {h} ran after it.",
        "the hat did not stop. It [hopped over a wall|danced across the square], and [a dog ran after it|two geese ran after it], and {h} ran after [them both|everything].")
    w.t("for a moment it sat on the head of [a statue|a scarecrow|a very serious horse], and it [looked rather good there|suited him well]. {h} reached out. The wind [laughed|puffed], and off it went.")
    w.t("it sailed over [the roofs|the washing lines|the duck pond] and came down in [a garden with a high wall|a garden that {h} had never seen|the garden of the empty house].")
    w.p()
    w.t("{h} [peeped through the gate|climbed up and looked over]. There [sat|stood] a {f.noun} called {f} with [a leg in plaster|a blanket round {f.his} knees|a cold and a very red nose], and on {f.his} head was the {hat}.")
    w.say("f", "[Is this yours?|It fell out of the sky.] [I was just wishing for something to happen.|I have to stay here until I'm well, and it is so dull.|Nothing has ever come to visit me before.]", "ask")
    w.t("{h} [opened the gate|came in and sat down]. They [played cards|told riddles|counted clouds] until [it was time for supper|the lamps were lit], and they [forgot all about the hat|laughed so much that a window was opened].")
    w.say("h", "[You can keep it until I come back.|Keep it for now.] [Then I'll have to come and fetch it.|I'll come for it tomorrow.]", "kind")
    w.t("the next day {h} came to fetch the hat, and forgot it there. [And the day after that, too|The day after, the same thing happened]. It was [very|quite] a forgetful week.")
    close(w, "friend", "{f} and the hat", "and when the wind blows now, {h} holds {h.his} hat a little loosely.", "by the time {f} was well, nobody could say whose hat it was.")


def pass_it_on(w):
    w.child()
    w.elder("m")
    opening(w)
    w.p()
    w.t("{day} {h} saw the postman coming up the hill, [red and puffing|tired and wet], with his heavy bag. {h.he} [ran out with a glass of <drink>|carried the bag for him to the top].")
    w.say("h", "[It's nothing.|You're welcome.] [Just pass it on.|I was going that way.|Everybody needs a rest.]", "kind")
    w.t("the postman was so [pleased|cheered] that he [whistled|took an extra turn] and stopped to [mend the gate of|read a letter aloud to] [the old lady at the corner|the widow by the church|a lady who could not see well].")
    w.t("the lady was so [happy|touched] that she baked [a tray of buns|an apple tart|two dozen biscuits] and sent [some|half of them] to [the school|the firemen|the family with nine children].")
    w.t("the child who got the last one shared it with a stray [cat|dog], [thin and grey|with one torn ear], who had not been spoken to kindly [for weeks|all winter].")
    w.p()
    w.t("that evening {h} was [sad|out of sorts]. {h.he} had [lost {h.his} key|dropped {h.his} mitten in the snow|lost {h.his} lucky stone] and [looked for it everywhere|could not find it in the dark].")
    w.t("then something [soft|warm] pushed against {h.his} leg. It was [a stray|a thin grey animal that {h} had never seen before], and in its mouth was [just what {h.he} had lost|the very thing {h.he} was looking for].")
    w.say("h", "[Where did you come from?|Who sent you?] [Thank you!|How did you know?]", "ask")
    w.t("{m} [looked out of the door|heard the story] and [laughed softly|nodded slowly].")
    w.say("m", "[Kindness is like a ball. You throw it, and you never know where it bounces.|What you give away takes a walk around the town, and then it comes home.|A good deed has long legs.]", "kind")
    w.t("[of course the visitor was asked in|they let it in], and it slept [by the stove|at the foot of the bed] that night, and [every night after|it never left again].")
    close(w, "kind", "the long walk of one small kindness", "and the next morning {h} looked out for the postman again.")


def hide_and_seek(w):
    w.animal("h", sizes=(1, 2), named=0.8)
    w.animal("f", sizes=(1, 2, 3))
    w.animal("g", sizes=(2, 3, 4))
    w.place("p")
    opening(w)
    w.p()
    w.t("{day} {h}, {f.full} and {g.full} played hide and seek {p.at}. [It was {g}'s turn to seek|{g} had to seek first].")
    w.t("{g} [closed both eyes|turned to a tree] and began to count. {g.he} was not good at counting, so it took a long time.")
    w.t("{f} hid [in a place where anyone would look|behind a stem that was far too thin]. But {h} had found the best hiding place in the world: [a hollow under a root|a hole behind a curtain of leaves|an old basket with a lid].")
    w.t("{h} [sat very still|made no sound]. {h.he} heard {g} find {f}, and [both of them laugh|the two of them giggle]. Then {h.he} heard steps come near, [and go away again|stop, and go on].")
    w.say("h", "[They will never find me.|I'm the best hider there is.|I have won!] [Hee hee.|]", "soft")
    w.t("{h} waited. It grew [cool|late]. {h.he} waited some more. [Somewhere a door closed|The first bat flew by]. It came to {h.him} that [it is not much fun to win when nobody sees it|nobody was looking any more].")
    w.p()
    w.t("{h} [crept out|pushed the leaves aside]. There was no one there. [Had they all gone home|Had they forgotten {h.him}]? {h.his} chin began to tremble.")
    w.t("then {h.he} saw [lights among the trees|three little lanterns]. There were {f} and {g} and [half the neighbourhood|everyone else], [calling {h.his} name|looking under every leaf]. Their voices were [hoarse|quite worn out].")
    w.say("h", "[Here I am!|I'm here!] [I thought you had forgotten me.|I thought you had all gone home.]", "shout")
    w.say("f", "[We have been looking for hours!|Forgotten you? We looked under every stone!] [You can't go home without the third one.|Please, next time, sneeze a little.]", "glad")
    w.t("{g} [lifted {h} up|gave {h} a hug]. \"You won,\" {g.he} said. \"[But let us play something else tomorrow|But it was the worst game of my life].\"")
    close(w, "friend", "the search", "the next time, {h} hid so that one foot could be seen.", "it is nice to hide well, but it is nicer to be found.")


def scarecrow(w):
    w.being("h", "scarecrow", "m", w.pick(("Old Jack", "Straw Tom", "Barnaby", "Mr Patch", "Hob", "Wisp")), w.pick(("ragged", "lonely", "old", "thin", "new")))
    w.animal("f", w.pick(("crow", "sparrow", "robin", "wren")), named=0.8)
    w.biome = "farm"
    w.slots["h"].species = None
    w.t("in the middle of a [field of wheat|cornfield|cabbage field] stood {h.full}.", "once upon a time, there was {h.full} who stood in a field, [day and night|in sun and rain].",
        "{h} was {h.a}. He had [a turnip|a sack] for a head, [buttons|two bottle tops] for eyes and a coat that had once belonged to [the farmer's grandfather|a sea captain].")
    w.t("his work was to frighten birds, and he was [very good at it|too good at it]. That was [the trouble|what made him sad], because he [liked birds|loved to hear them sing].")
    w.say("h", "[Good morning!|Wait, don't go!] [I won't hurt you.|I only look like this.|I can't even move my arms.]", "shout")
    w.t("but whenever he [opened his mouth|rustled], they [flew off in a cloud|screamed and were gone]. So he [talked to the beetles|counted clouds|kept very still], and the days were long.")
    w.p()
    w.t("late in the autumn, when the first frost came, {f.full} [fell out of the sky|came down in the stubble], with [a hurt wing|ice on {f.his} feathers].")
    w.say("f", "[Please don't frighten me. I can't fly.|I would fly away, but I can't.] [I am so cold.|I'm too tired to be afraid.]", "soft")
    w.say("h", "[Climb into my pocket.|There is a hole in my coat, just your size.] [It's full of warm straw.|Nobody will find you there.]", "kind")
    w.t("all through the [winter|cold months] {f} lived in the coat. {f.he} told {h} about [the sea and the mills|towns, towers and market days], and {h} kept off [the wind and the fox|the snow with his big hat]. {f} pulled out a bit of straw now and then, for the nest, and {h} [said it only tickled|did not mind].")
    w.t("when spring came, {f} was well. {f.he} flew [up and up|three times around the field]. {h} watched until [he could see nothing but sky|{f.he} was a dot]. \"[That is that, then|Well, it was a good winter],\" he said to the beetles.")
    w.t("but the next morning there was a noise like [rain|a school at playtime]. {f} was back, and behind {f.him} came [fifty|a hundred] birds! They sat on his arms, on his hat, on his [shoulders|nose].")
    w.say("f", "[This is the one I told you about.|Here he is, my friend with the warm pocket.] [We have talked it over. We will leave the corn alone.|We'll eat the beetles and leave the grain.]", "glad")
    w.t("that year the farmer had the [best harvest of his life|fullest barn for miles], and never understood why his scarecrow was [covered in birds|always singing].")
    close(w, "", "", "some say that scarecrows can't smile. They have not seen {h}.", "and there was always somebody in the pocket when the snow fell.")


def caterpillar(w):
    w.being("h", "caterpillar", name=w.pick(("Wiggle", "Pip", "Olive", "Nub", "Humbert", "Twist", "Lettie")), adjective=w.pick(("small", "green", "hungry", "slow", "fat", "hairy")))
    w.biome = "wood"
    w.animal("f", w.pick(("snail", "ant", "ladybird", "bee", "mouse")), named=0.9)
    h = w.slots["h"]
    if h.name in ("Olive", "Lettie") and h.gender == "m" or h.name == "Humbert" and h.gender == "f":
        h.name = "Nub"
    w.t("on a [cabbage|bramble|nettle] leaf lived {h.full}.", "there was once {h.full} who [ate from dawn to dusk|never stopped eating].", "once upon a time, there was {h.full}, and {h.he} was always hungry.",
        "{h} was {h.a} with [sixteen feet|more feet than {h.he} could count].")
    w.t("{h.his} best friend was {f.full}. Every day they [sat on the same twig|went to the end of the leaf and back], and {h} ate [a hole in something|everything on the way].")
    w.say("h", "[I feel strange.|Something is the matter with me.] [I'm tired, and I'm not hungry.|My skin is too tight.|I want to hang upside down. Is that normal?]", "ask")
    w.say("f", "[You, not hungry?|That is new.] [Shall I fetch a doctor?|Perhaps you are ill.|Sleep a little. I'll stay with you.]", "say")
    w.t("{h} [spun a thread|hung from a twig] and wrapped {h.himself} up, [round and round|tighter and tighter], until only a small [brown|grey] parcel was left. {f} knocked. [Nobody answered|No answer came].")
    w.p()
    w.t("{f} was [very sad|worried]. But {f.he} [sat by the parcel|came every morning], in [wind and rain|sun and storm], and talked to it: [what was in bloom, and who had quarrelled with whom|about the weather, mostly].")
    w.t("\"[That thing is empty|Your friend is gone],\" said [a beetle|a passing fly]. \"[Find somebody else|Don't waste your time].\"")
    w.say("f", "[I promised to stay.|I said I would be here.] [A friend does not go because it takes a while.|Somebody should be here when the door opens.]", "say")
    w.t("then, on a [warm|bright] morning, the parcel [cracked|split]. Out came something [wet and crumpled|thin and trembling]. Slowly it unfolded two wings, [blue as the evening|yellow with black spots|red and brown, with eyes on them].")
    w.t("{f} [stepped back|bowed]. \"[Excuse me|Good morning],\" {f.he} said [politely|shyly]. \"I am waiting for my friend {h}. [Short, round, always hungry|You may have met in there].\"")
    w.t("the butterfly laughed. It was [a laugh that {f} knew|{h}'s laugh]. \"It's me,\" {h} said. \"[I heard every word you said|I heard your voice the whole time]. [It got me through the dark|That is how I knew which way was out].\"")
    w.t("{h} could go anywhere now, [over the hills|across the sea]. But every evening {h.he} came back to the same twig, and [told {f} where the wind had been|sat beside {f}, and was not hungry at all].")
    close(w, "friend", "", "wings are fine things, but somebody has to be there to show them to.", "only now and then {h.he} still took one small bite out of a leaf.")


def loose_tooth(w):
    w.child()
    w.child("f")
    w.elder("m")
    opening(w)
    w.p()
    w.t("{day} {h} [bit into an apple|woke up] and felt something [move|wobble]. {h.he} had a loose tooth!")
    w.t("{h.he} [wiggled it with {h.his} tongue|pushed it to and fro]. It [hung by a thread|clicked], but it did not come out.")
    w.t("{f}, {h.his} [best friend|cousin], [knew what to do|had plenty of advice|wanted to help].")
    w.say("f", "[Tie it to a door!|My brother pulled his with a string.|Let me pull it!] [It only hurts a lot.|It's over in a second.|You won't feel a thing.]", "glad")
    w.t("{h} [did not like that idea at all|went pale]. {h.he} [ate only soup|chewed on the other side|talked with {h.his} mouth shut] for [two|three] days.")
    w.say("h", "[What if it hurts?|What if no new one grows?|What if I swallow it?] [I want to keep it where it is.|]", "soft")
    w.p()
    w.say("m", "[It has served you well, and now it wants to go.|There's a new one pushing from below.] [It will come out when it is ready, and so will you.|Nobody has to pull. Leave it be.|I lost all of mine, and look, I'm still here.]", "kind")
    w.t("{h} [thought about it|felt a little better]. On [Saturday|the way to school], {f} [told a joke about a cow on a ladder|slipped on a plum stone and sat down in a bucket|made a face like the headmaster], and {h} laughed so hard that, plop, [the tooth flew out|out it came].")
    w.t("it flew [through the air|in a high curve] and landed in [a puddle|the grass|somebody's soup]. [They searched on hands and knees|Everyone helped to look], and they found [two buttons, a beetle and a penny|a marble and a hairpin] before they found the tooth.")
    w.say("h", "[It didn't hurt at all!|I didn't feel a thing!] [Look, I can whistle through the hole!|Look how small it is!]", "glad")
    w.t("that night {h.he} put it [under the pillow|in a matchbox]. In the morning there was a [coin|tiny letter] in its place, and [a sprinkle of something that shone|the window was open just a crack].")
    close(w, "brave", "", "{f} looked at the gap, and was just a tiny bit jealous.", "the new tooth came in the spring, and it was a little crooked, just like {m}'s.")


def dark_evening(w):
    w.child()
    w.elder("m")
    w.time = "evening"
    opening(w)
    w.p()
    w.t("{day} all the lights went out, [in the house and in the whole street|in every house at once]. [The storm had blown down a pole|A tree had fallen on the wires].",
        "{day} there was a [click|bang], and it was dark. No lamp would [burn|go on], [not in the hall and not in the street|anywhere in town].")
    w.t("{h} [bumped into a chair|stood in the middle of the room with {h.his} hands out]. [Everyone had been busy in a room of their own|Until then, everyone had been doing something different].")
    w.say("m", "[Don't move, I have a candle.|I know there are matches somewhere.] [Everybody come to the kitchen.|Come here, all of you.]", "shout")
    w.t("one after another they came: {m}, {h}, [the big sister|the big brother], [the aunt from upstairs|the lodger from the attic] and even the cat. They sat around one candle[ at the kitchen table|]. At first nobody [knew what to say|spoke].")
    w.p()
    w.t("then {h} [held up {h.his} hands|made a shape with {h.his} fingers]. On the wall there was a [rabbit|dog|bird]! {m} made [a goose|a crocodile|an old man with a pipe]. Soon [the whole wall was full of animals|there was a circus on the wall].")
    w.t("they toasted [bread|cheese] over the [stove|flame], and {m} told [how {m.he} had once been lost in a cave|about the night of the big flood|the one about the goat and the bishop]. [Nobody had heard it before|They had all forgotten how well {m.he} told it].")
    w.t("there was a knock. It was the neighbour, who was [alone in the dark|afraid of storms]. \"[Have you any matches|Do you have a candle to spare]?\" They had something better: [a chair|room on the bench].")
    w.say("h", "[I hope it stays dark.|Can we have no light every week?] [I can see you all much better like this.|It has never been so bright in here.]", "soft")
    w.t("just as [the best part of the story began|they were singing], the lights came back on, [white and loud|all of them together]. Everyone blinked. [It seemed rather a pity|Nobody looked glad].")
    w.t("then {m} [got up|reached out] and [turned the lamp off again|put out the light]. \"[The candle is not finished yet|I had not come to the end],\" {m.he} said.")
    close(w, "", "", "after that, [Friday|Sunday] was candle night, storm or no storm.", "they sat there until the candle was a puddle, and that was the brightest evening of the year.")


def raft(w):
    w.child()
    w.child("f")
    w.elder("m", relations=("mother", "father", "aunt", "uncle"))
    opening(w)
    w.p()
    w.t("{day} {h} and {f} decided to build a raft and sail [to the sea|to the island in the river|around the world, or at least to the mill].")
    w.t("they [gathered|dragged together] [four barrels|old planks|an old door] and [a washing line|all the string in the house]. {h} [tied the knots|drew the plan], {f} [hammered|held the nails], and [only one thumb was hurt|they had just one quarrel about it].")
    w.t("they called it [the Sea Lion|the Brave Potato|the Queen of the North|the Flying Duck]. For food they took [six sandwiches|a whole cheese and two apples|a cake that was meant for Sunday].")
    w.say("m", "[Can it float?|Does it hold?] [Be home by supper.|Stay where I can see you, captains.|If it sinks, walk home along the bank.]", "ask")
    w.t("they pushed off. The river [took hold of them and carried them|carried them along], past [cows that stared|willows and washing]. A heron [looked down its beak at them|stood like a post]. [It was grand|They felt like real sailors].")
    w.p()
    w.t("then, [by the old bridge|in the middle of the river], there was a [crack|creak]. One [knot|rope] came loose, and then another. [The raft grew longer and thinner|Half of the raft went left, and the other half went right].")
    w.say("f", "[Captain, we are sinking!|We are coming apart!] [What do we do?|My feet are wet!]", "shout")
    w.say("h", "[Save the cake!|Don't panic! Or only a little!] [It's not deep here. I can see the bottom.|Hold on to the barrel and kick!]", "shout")
    w.t("{f} stood up. The water came [to {f.his} knees|just over {f.his} boots]. They looked at each other and began to laugh, and [they laughed so much that they sat down in the river|the heron flew off in disgust].")
    w.t("they waded to [a little island no bigger than a table|a sandbank], hung up their socks, ate [the wet sandwiches|what the ducks had left them], and [gave the island a name|planted a flag made of a handkerchief].")
    w.t("at supper time they came home, [dripping|barefoot and muddy]. \"[And how far did you get|Did you reach the sea]?\" asked {m}. \"[Far enough|Further than anyone before us],\" said {h}.")
    close(w, "try", "the raft", "the next day they began on a new one, with better knots.", "and on the map on {h.his} wall there is now an island that is in no other book.")


def old_tree(w):
    w.child()
    w.adult("o", w.pick(("carpenter", "farmer", "miller", "teacher")), named=0)
    w.set("tree", "oak", "chestnut", "lime tree", "walnut tree", "beech")
    w.set("need", "a new road", "a town hall", "a shop", "a warehouse")
    opening(w)
    w.p()
    w.t("on the square stood an old {tree}. [Nobody knew how old it was|It was older than the church]. {h} [knew every branch|had learned to climb in it].")
    w.t("{day} a sign was nailed to it: \"[To be cut down on Monday|This tree will be cut down]. We need room for {need}.\"")
    w.say("h", "[They can't do that!|But it was here before all of us!] [Where will the owls live?|Somebody has to stop it.]", w.pick(("shout", "sad")))
    w.t("{h} went to the mayor. The mayor [looked over his glasses|did not look up]. \"[A tree is a tree|It's only wood],\" he said. \"[Who would miss it?|Nobody needs it.]\"")
    w.t("so {h} took [a notebook|a pencil and a long roll of paper] and went from door to door. \"[What do you know about the old tree|Do you remember anything about the tree]?\" {h.he} asked.")
    w.p()
    w.t("the {o.noun} had [proposed to {o.his} sweetheart under it|fallen out of it as a child, and still had the scar]. The baker [had cooled his first bread in its shade|had hidden there from his brothers]. Two old sisters had [buried a doll|carved their names] there [seventy|sixty] years ago.")
    w.t("everybody had a story. {h} wrote down [every one of them|them all], and the paper grew [longer than the street|so long that it took two to carry it].")
    w.t("on Monday morning {h} [hung the paper around the trunk|wound the paper round and round the tree]. When the men came with their saws, they began to read. [They read all morning|They read it to the end, and then from the beginning]. One of them [took off his hat|sat down].")
    w.t("the mayor came to see what was taking so long. He read too. Near the bottom, he [stopped|went pink]. \"[I had forgotten that|So it was here],\" he said. In shaky letters it said: \"[A small boy cried here because he was new in town, and a girl gave him half of her pear|A little boy lost his first tooth up there, and was very brave].\"")
    w.say("h", "[Was that you?|Do you remember now?]", "soft")
    w.t("the mayor [blew his nose|folded up the sign]. \"[There is room for {need} somewhere else|We will build it behind the station],\" he said[, and cleared his throat|].")
    close(w, "", "the old tree", "the tree is still there. In the summer you can hardly find a free place under it.", "and the owls never knew anything about it.")


def little_cloud(w):
    w.being("h", "cloud", name=w.pick(("Puff", "Nimbus", "Wisp", "Fluff", "Mist", "")), adjective=w.pick(("little", "small", "white", "shy", "young")))
    h = w.slots["h"]
    h.gender, h.he, h.him, h.his, h.himself = ("n", "it", "it", "its", "itself")
    w.child("f")
    w.t("once upon a time, there was {h.full}.", "high above the hills floated {h.full}.", "there was once {h.full} who did not want to rain.", "{h.the_adj} lived in the sky, [between the wind and the sun|a little way above the mountains].")
    w.t("the big clouds [rumbled and rolled|threw lightning about]. They could [soak a whole valley|fill a lake]. The little one only [made a small shadow|drifted along behind].")
    w.say("h", "[If I rain, I'll be gone.|When I have rained, there will be nothing left of me.] [I would rather stay as I am.|I want to keep every drop.]", "soft")
    w.t("so it [held on tight|kept all its water], and grew [heavier|greyer] and [slower|more and more lonely]. The others [had long moved on|were far ahead].")
    w.p()
    w.t("one [hot|dry] day it came over a [garden|dusty yard]. Down there, {f}, a {f.noun} with [a watering can|a dented bucket], was [carrying water from a far-off well|walking to and fro], [back and forth, back and forth|one cupful at a time], to [one small apple tree|a row of thin bean plants].")
    w.t("the leaves hung down. {f} [wiped {f.his} face|sat down in the dust]. \"[I can't carry enough|It's no use],\" {f.he} said to {f.himself}. \"[I'm so sorry|I did try].\"")
    w.t("{h} [looked down for a long time|had never looked so closely at anybody]. Something in the middle of it [grew soft|began to tremble]. \"[Just one drop|Only a little],\" it thought.")
    w.t("plip. {f} looked up. Plip, plop. And then {h} let go of everything, and it rained and rained, [warm and silver|sweet-smelling and soft], on [one single garden|that one small place].")
    w.t("{f} [danced in it with open arms|laughed and held up {f.his} face]. The leaves [stood up|drank]. The little cloud grew [thinner and thinner|lighter and lighter], and the last thing it saw was [a smile|a rainbow with both feet in the garden].")
    w.t("but that was not the end. It was [in the leaves and in the roots|in the tree]. It was in the morning [mist|dew]. And one day the sun [called it|lifted it up], drop by drop, and there it was again, [in the blue|high over the hills].")
    w.say("h", "[So that's how it works!|I was never gone at all!] [You give it away, and it comes back.|I only went for a walk.]", "glad")
    close(w, "", "", "since then {h} has rained a hundred times, and has never been afraid again.", "in the garden there is an apple tree, and its apples taste just a little of sky.")


def echo(w):
    w.animal("h", biome=w.pick(("wood", "farm", "savanna")), sizes=(1, 2, 3), named=0.85)
    w.elder("m", relations=("mother", "father", "grandmother", "grandfather"))
    w.place("p", among="near the tall rocks|by the deep valley|in the stony gorge|at the foot of the mountain")
    opening(w)
    w.p()
    w.t("{day} {h} {h.went} {p.to}, further than {h.he} had ever been. \"[Hello|Hey]!\" {h.he} called, [just for fun|to hear how it sounded].")
    w.t("somebody on the other side called the very same thing.")
    w.say("h", "[Who are you?|Who is there?]", "shout")
    w.t("the voice only asked the same question back.")
    w.t("{h} [did not like that|frowned]. \"[You are rude|Stop copying me]!\" {h.he} shouted. And the voice [shouted the same|gave it right back], [twice|over and over].")
    w.t("\"[I don't like you|Go away],\" {h} yelled. \"[Like you, like you|Away, away],\" it came back, and it sounded [just as cross|even crosser]. {h} [stamped|burst into tears] and {h.went} home.")
    w.p()
    w.say("h", "[There's someone horrible in the mountains.|Someone over there hates me.] [I only said hello, and it mocked me.|It shouts at me, and I don't even know it.]", "sad")
    w.say("m", "[Oh, I know that one.|Did you shout first, or did it?] [Go back tomorrow and say something kind.|It is a very good listener. Try a nice word.]", "kind")
    w.t("the next day {h} stood {p.at} again, [a bit afraid|not quite sure]. {h.he} [thought hard|took a deep breath]. \"[I'm sorry|Good morning]!\" {h.he} called. The voice [was sorry too|wished {h.him} the same].")
    w.t("\"[Will you be my friend|Let's be friends]!\" called {h}. \"[Be my friend|Be friends, be friends],\" said the mountain, [so warmly that {h.he} laughed|softly, from far away]. And when {h} laughed, [the whole valley laughed with {h.him}|it laughed back from seven sides].")
    w.say("h", "[It's quite nice after all!|It is only as cross as I am.] [It gives me whatever I give it.|You just have to begin well.]", "glad")
    w.say("m", "[Most of the world is like that.|So it is with nearly everyone.|That is a thing some never find out.]", "kind")
    close(w, "kind", "", "on quiet evenings {h} still goes there, and says good night, and hears it from all around.", "{h} calls every day. It has never once forgotten to answer.")


def two_gifts(w):
    w.animal("h", sizes=(1, 2, 3), named=0.85)
    w.animal("f", sizes=(1, 2, 3), named=0.85)
    w.place("p")
    hers, his = w.pick((("a warm scarf", "a tin cup"), ("a little drum", "a blue ribbon"), ("a brass button", "a piece of candle"), ("a walking stick", "a jar of honey")))
    w.slots["own"], w.slots["other"] = hers, his
    opening(w)
    w.p()
    w.t("{h} and {f.full} were [neighbours|the best of friends]. The midwinter feast was [near|only a day away], and {h} wanted to give {f} something [fine|special].")
    w.t("but {h.his} [shelf|cupboard] was [empty|bare]. {h.he} had only one good thing: {own}. {h.he} [looked at it for a long time|turned it over and over].")
    w.say("h", "[I could swap it.|{f} needs a warm blanket more than I need this.] [{f} always freezes in the winter.|It would be worth it to see {f} smile.]", "soft")
    w.t("so {h} {h.went} through the snow {p.to}, where [an old magpie kept a stall|a peddler had his cart], and swapped it for a [thick|soft] blanket.")
    scene(w, 0.3)
    w.p()
    w.t("at the feast, {h} gave {f} the blanket. {f} [opened {f.his} mouth|went very quiet]. Then {f.he} [began to laugh|wiped {f.his} eyes] and held out a parcel of {f.his} own. In it was the very thing {h} had given away: {own}!")
    w.say("f", "[I saw it on the stall, and I thought of you at once.|I thought you had lost it!] [I gave {other} for it.|It cost me {other}, and I was glad to pay.]", "glad")
    w.say("h", "[But you loved that!|But that was the only thing you had!] [So we have both been foolish.|And I swapped mine for you.]", "shout")
    w.t("they looked at each other, and at the [presents|wrapping], and [laughed until the icicles fell from the roof|could not stop laughing].")
    w.t("the blanket was [big|wide] enough for two. They sat under it, side by side, [with their feet to the fire|and watched the snow come down], and [passed a cup of hot tea to and fro|shared one small cake].")
    w.t("in the morning there was {other} on the doorstep, with [a black feather|a small note] beside it: \"[Merry feast day|From one who listens at windows].\"")
    close(w, "share", "", "and so, in the end, everyone had everything, and nobody knew quite how.", "{f} never froze again, and neither did {h}.")


PLOTS = (runaway_hat, pass_it_on, hide_and_seek, scarecrow, caterpillar, loose_tooth, dark_evening, raft, old_tree,
         little_cloud, echo, two_gifts)
