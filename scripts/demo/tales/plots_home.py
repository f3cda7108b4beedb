"""Stories of children at home: toys, cakes, quarrels, small fears."""

from .frame import close, opening, scene


def lost_toy(w):
    w.child()
    w.thing("x")
    w.elder("m")
    opening(w, thing=True)
    w.p()
    w.t("{day} the {x} was [gone|nowhere to be seen|missing].",
        "{day} {h} [woke up|came downstairs] and could not find the {x}[| anywhere].",
        "{day} {h} reached for {h.his} {x}, [and it was not there|but {h.his} hand found nothing].")
    w.t("{h.he} looked <search_home>. {h.he} looked <search_home>. [It was not there.|No {x}.|Nothing.]",
        "{h} looked <search_home>, <search_home> and <search_home>, but [there was no {x}|all {h.he} found was dust|all {h.he} found was one old sock].",
        "first {h.he} searched <search_home>, then <search_home>[, and even <search_home>|]. [There was no {x}|The {x} was not there].")
    w.say("h", "[I have lost|I can't find] my {x}! [I have looked everywhere.|What if it is gone forever?|It must be somewhere.]", "sad")
    w.say("m", "[Let us think.|Don't worry.|Take a deep breath.] [Where did you have it last?|When did you last see it?|Lost things like to be looked for slowly.]", "kind")
    w.p()
    kind = w.pick(("walk", "sibling", "pet", "self"))
    if kind == "walk":
        w.place("p")
        w.t("{h} <thought>. [Yesterday|The day before], {h.he} had played {p.at}.",
            "then {h} remembered: [yesterday|the day before], {h.he} had been {p.at}.")
        w.t("{h.he} [pulled on {h.his} boots and|put on {h.his} coat and|] [ran|hurried] {p.to}.")
        scene(w, 0.4)
        w.t("[There, <search_out>,|And there, <search_out>,] lay the {x}, [a little wet|a bit dusty|with a snail on it|covered in dew], but [not broken|quite all right|as good as ever].",
            "{h.he} looked <search_out>, and [a bit of colour caught {h.his} eye|something peeped out]. It was the {x}[, a little muddy but whole|]!")
        topic = "the walk {p.to}"
    elif kind == "sibling":
        w.child("f")
        w.t("just then, [a small sound|a little song|a giggle] came from [the next room|under the stairs|behind the sofa].",
            "<suddenly> {h} heard [somebody humming|a whisper] [in the next room|under the stairs].")
        w.t("It was {f}, {h.his} [little|baby] [{f.sib}], [sound asleep|fast asleep|half asleep] with the {x} in {f.his} arms.",
            "there sat {f}, {h.his} little {f.sib}, [talking to|showing a picture to|having tea with] the {x}.")
        w.say("f", "[It looked lonely.|I missed you when you were at school.|I only wanted to keep it warm.] [Are you cross?|You can have it back.|Sorry.]", "soft")
        w.t("{h} [wanted to be cross, but {h.he} could not|opened {h.his} mouth, and then {h.he} had to smile|sat down beside {f.him}].")
        w.say("h", "[We can share it.|Next time, just ask me.|Let's play with it together.]", "kind")
        topic = "{f} and the {x}"
    elif kind == "pet":
        w.set("pet", "cat", "dog", "puppy", "kitten")
        w.t("then {h.he} noticed that the {pet} [was not in its basket|looked very pleased with itself|had a guilty look].",
            "at that moment the {pet} walked by [with its tail in the air|very slowly], [as if nothing had happened|looking the other way].")
        w.t("{h} followed it [out of the door|down the stairs|across the garden], and [what did {h.he} see|there, <search_out>, was a secret nest]. There was the {x}, together with [two socks and a spoon|a slipper and half a biscuit|three gloves and a ribbon].")
        w.say("h", "So [it was you|you are the thief], you [rascal|funny thing|little robber]!", "glad")
        topic = "the {pet}'s treasure"
    else:
        w.t("{h} [sat down on the stairs|flopped onto {h.his} bed|leaned against the wall], and something [poked {h.him} in the back|felt lumpy].")
        w.t("{h.he} reached [into {h.his} hood|under {h.his} jumper|behind {h.him}] and pulled out the {x}. [It had been with {h.him} all along|{h.he} had been carrying it the whole time].")
        w.say("m", "[Sometimes the thing we look for is very close.|Well, that is one place we did not look.|You found the best hiding place of all.]", "glad")
        topic = "the {x}"
    w.maybe(0.5, "{h} hugged the {x} [and would not let go|as tight as {h.he} could].", "{h} [laughed|danced around the room] with relief.")
    close(w, "", topic, "after that, {h} [always put the {x} back in its place|gave the {x} a place of its own|knew where to look first].",
          "\"[Welcome back|There you are],\" {h} told the {x}. \"[Don't do that again|I missed you].\"")


def two_and_one(w):
    w.child()
    w.child("f")
    w.thing("x")
    w.elder("m")
    opening(w, thing=w.chance(0.5))
    w.p()
    w.t("{day} {h.his} [friend|cousin] {f} came to [play|visit|stay for the day].",
        "{day} {f}[, {h.his} cousin,| from next door|, who lived next door,] came [over to play|to visit].")
    w.t("[Both of them wanted|They both wanted to play with] the {x} [at the same time|first].",
        "[everything went well until they both reached for|soon they were both holding] the {x}.")
    w.say("h", "[It's mine!|I had it first!|Let go!] [You always want my things.|Find something else to play with.|]", "cross")
    w.say("f", "[I only want a turn!|You never let me have a turn!|But I am the guest!]", "cross")
    w.t("{h} pulled [one way|to the left], {f} pulled [the other|to the right], and [crack, the {x} flew across the room|bump, they both fell over|rip, went {f.his} sleeve].",
        "they pulled and pulled, until [they both fell over backwards|the {x} flew through the air and landed in the [soup|fish tank|flour]].")
    w.t("[Then it was very quiet|For a moment nobody spoke|The room went silent].", "{h} [looked at {f}|stared at the floor]. {f} [looked at {h}|bit {f.his} lip].")
    w.p()
    w.t("{h.his} {m.noun} [came in|looked around the door|put down {m.his} tea]. {m.he} did not [shout|scold]. {m.he} only [took out a little sand timer|set a clock on the table|asked for the {x}].",
        "{m} [sat down between them|knelt beside them|looked from one to the other].")
    w.say("m", "[One {x}, two friends.|Here is a puzzle for you.] [How could both of you be happy?|What could you do with it together that one alone cannot do?]", "ask")
    w.t("They [thought about it|whispered together|put their heads together]. <after_while> {h} had an idea.",
        "{f} was the first to [smile|speak]. {f.he} had an idea, and {h} [liked it at once|made it even better].")
    w.t("they [made up a game in which the {x} was a treasure|built a castle for the {x} out of [cushions|boxes|chairs]|made a play about the {x}], [with a part for each of them|and {h} was the [king|captain] and {f} was the [dragon|cook]].",
        "[first {h} would have it until the bell rang, then {f} would|each of them would have it for one song], and the one who waited could [choose the next game|be the judge].")
    w.t("[It was much more fun than|They laughed more than at|The afternoon went faster than with] any game [alone|they had played before].")
    w.maybe(0.5, "when it was time to go home, {f} [did not want to leave|asked if {f.he} could come again tomorrow].")
    close(w, "share", "the game with {f}", "and the {x}? [It was not broken at all|It had only a small scratch, and that was a scratch to be proud of].",
          "the next time {f} came, {h} [had the {x} ready|held out the {x} and said, \"You first\"].")


def rainy_day(w):
    w.child()
    w.child("f")
    w.elder("m")
    w.set("plan", "go to the beach", "have a picnic", "fly kites on the hill", "visit the fair", "row on the lake", "pick berries")
    w.time = "morning"
    if w.chance(0.4):
        w.timed = True
        w.t("it was raining [in <village>|outside|again].", "<rain_sound>, and <rain_sound>.", "[it rained all morning|one morning, it rained and rained].")
        w.t("{h} [pressed {h.his} nose against the window|sat on the windowsill], and {h.his} [{f.sib}|friend|cousin] {f} [sat beside {h.him}|did the same].")
    else:
        opening(w)
        w.p()
        w.t("{day} <rain_sound>. {h} and {h.his} {f.sib} {f} looked out [of the window|at the grey garden].")
    w.say("h", "[Today of all days!|It isn't fair.|Oh no.] [We wanted to {plan}!|Now we can't {plan}.]", "sad")
    w.say("m", "[The rain does not know about our plans.|The garden is thirsty.|A wet day needs a dry idea.] [I wonder what you will think of.|What do you have that the rain can't touch?|Use what you have.]", "kind")
    w.p()
    if w.chance(0.4):
        w.t("{f} [dragged in|found] an enormous [box|cardboard box]. \"[This|Here] is our ship!\" {f.he} [cried|announced].",
            "in the hall stood a big empty box. {h} [climbed in|looked at it for a while].")
        w.t("a [broom|mop] became the mast, and [a bed sheet|a tablecloth|an old curtain] became the sail. The [carpet|floor] was the sea[, full of sharks and slippers|].")
        w.t("they sailed to [the Island of Lost Socks|the North Pole|the Cape of Cushions], where they [met a whale|found gold|traded biscuits for pearls], [and the cat was the whale|and the gold was made of chocolate|and nobody got seasick].")
        w.set("made", "ship", "voyage", "great box ship")
    elif w.chance(0.5):
        w.t("they took [all the blankets|every cushion|four chairs and two blankets] and built a [tent|fort|castle] [in the middle of the room|under the big table].")
        w.t("inside it was [warm and dim|like a cave|dark and cosy]. They [lit a small lamp|ate <snack>], and {h} told a story about [a bear who sold hats|a ghost who was afraid of mice|a king with no shoes].")
        w.t("when the thunder [rolled|rumbled], {f} moved [a little|] closer. \"[Don't worry|It's only clouds bumping heads],\" {h} whispered.")
        w.set("made", "tent", "castle of blankets", "fort")
    else:
        w.t("they [found a box of old clothes|opened the old trunk] and decided to put on a play.",
            "\"let's make a play!\" said {f}. They [opened the old trunk|turned the sofa into a stage].")
        w.t("{h} was a [pirate|wolf|wizard]" + " with a [soup spoon|feather duster|walking stick], and {f} was [the moon|a very old turtle|a bear in a ball dress|the ocean].")
        w.t("{h.his} {m.noun} [bought a ticket for one button|sat in the front row] and [clapped until {m.his} hands hurt|laughed so hard that {m.he} cried|threw a paper rose].")
        w.set("made", "play", "show")
    w.p()
    w.t("[Nobody noticed when the rain stopped|When they looked up, the rain had stopped|By the time the sun came out, no one was looking].",
        "[at last the sun came out|in the evening the clouds broke], and {m} opened the door. \"You can go out now,\" {m.he} said.")
    w.say("f", "[Not yet.|Just five more minutes.|Can it rain tomorrow too?] [We are busy!|We have only just begun.|]", "glad")
    close(w, "", "the {made}", "and so the [worst|wettest] day of the week became the best one.", "\"[I like rain|Rain is not so bad],\" said {h}[, yawning|].",
          "outside, a rainbow stood over the roofs, but inside [there was still a story to finish|the fun was not over].")


def night_noise(w):
    w.child()
    w.elder("m")
    w.time = "night"
    opening(w)
    w.p()
    w.timed = True
    w.t("one night, {h} [woke up|sat straight up in bed|opened {h.his} eyes]. There was a [noise|sound].",
        "one [dark|windy|stormy] night, a strange sound [woke {h}|came through the wall].")
    w.set("noise", "tap, tap, tap", "scritch, scratch", "creak, creak", "whoo, whoo", "thump, thump", "drip, drop", "rattle, rattle")
    w.t("[It went|There it was again]: {noise}. It came from [under the window|the attic|behind the wardrobe|the hall|the roof].",
        "\"{noise},\" it went. [Then it was quiet. Then it came again|And again].")
    w.t("{h} pulled the blanket [up to {h.his} chin|over {h.his} head]. [Maybe it is a monster|Perhaps it is a ghost|It could be a wolf], {h.he} thought.")
    w.t("{h.his} heart [beat like a drum|was thumping]. {h.he} [counted to ten|held {h.his} toy rabbit tight|took a deep breath].")
    w.p()
    if w.chance(0.5):
        w.t("then {h.he} [took the lamp|reached for the lamp], put one foot on the cold floor, and then the other.",
            "but lying there was worse than looking. {h.he} [slipped out of bed|got up] and lit [the lamp|a candle].")
        w.t("{h.he} tiptoed [across the room|along the hall|to the window], [step by step|not breathing|with the blanket around {h.him}].")
    else:
        w.t("{h.he} [crept down the hall|tiptoed to the next room] and [tugged at a sleeve|woke {m}].")
        w.say("h", "[There is something out there.|I heard a noise.|Something is making a sound.] [Can you come?|Please come and look.]", "soft")
        w.say("m", "[Then let us go and see.|Noises are braver in the dark.|A noise is only a question.] [We will look together.|Hold my hand.]", "kind")
    w.t("[The sound was very close now|It grew louder|There it was]: {noise}. {h} [lifted the lamp|pulled back the curtain|opened the door just a crack].")
    w.set("cause", "a branch of the apple tree, tapping on the glass", "a little hedgehog with its nose stuck in a flower pot", "the cat, shut out in the cold",
          "a loose shutter, swinging in the wind", "a tiny owl sitting on the windowsill", "a mouse rolling a walnut across the boards", "a kitten, wet and thin", "{h.his} own toy train, which the dog was trying to eat")
    w.t("[And there it was:|It was not a monster at all. It was] {cause}.")
    w.t("{h} [began to laugh|laughed out loud|let out a long breath]. \"[Is that all|So it was you|You scared me so much]!\" {h.he} [said|whispered].")
    w.maybe(0.5, "[They put everything right|{h} put everything right], and [had a cup of <drink>|there was a cup of <drink>] before bed.")
    close(w, "brave", "the noise", "when the noise came again the next night, {h} [only smiled and turned over|said, \"Good night, you,\" and went back to sleep].",
          "{h} went back to bed, and this time {h.he} left {h.his} head outside the blanket.")


def cake(w):
    w.child()
    w.elder("m", relations=("mother", "father", "grandmother", "grandfather"))
    w.set("cake", "<cake>")
    w.set("who", "{h.his} teacher", "old Mrs Finch next door", "{h.his} best friend", "{h.his} baby sister", "the postman", "{h.his} whole class")
    opening(w)
    w.p()
    w.t("{day} {h} and {m} [decided|wanted] to bake something for {who}. \"[How about|What about] {cake}?\" said {h}.",
        "{day} {h} wanted to make a surprise for {who}. \"[Everyone likes {cake}|Let's make {cake}],\" {h.he} told {m}.")
    w.t("{h} [broke the eggs|cracked three eggs], and only [a little|one bit of] shell fell in. {h.he} [stirred until {h.his} arm hurt|sifted the flour, and it snowed on the floor].",
        "soon there was flour on the table, flour on the floor and flour on {h.his} nose.")
    w.maybe(0.4, "{m} hummed an old song and let {h} lick the spoon.", "\"[The secret|My secret] is a pinch of [cinnamon|lemon|salt],\" said {m}.")
    trouble = w.pick(("salt", "burnt", "drop", "egg"))
    if trouble == "salt":
        w.t("when it was baked, they tasted a crumb. {h} [made a face|coughed]. {m} [made a worse one|reached for the water].")
        w.say("h", "[Oh no.|Oh dear.] [That wasn't sugar. That was salt!|I think I mixed up the jars.]", "sad")
    elif trouble == "burnt":
        w.t("then [a bird came to the window|the neighbour knocked|they began to read a story], and they forgot the oven. [A dark smell|Black smoke] filled the kitchen.")
        w.say("h", "[It's as black as coal!|It's burnt!] [Now it is all ruined.|What shall we do?]", "sad")
    elif trouble == "drop":
        w.t("{h} carried it to the table, [very slowly|step by step]. But the dog [ran between {h.his} legs|wanted to see too], and splat. The whole thing lay on the floor.")
        w.say("h", "It was [perfect|so beautiful]! [Now it's gone.|And I dropped it.]", "sad")
    else:
        w.t("then they looked for the [butter|sugar|last egg]. There was none left. [Not a crumb|The shelf was bare], and the shops were shut.")
        w.say("h", "[We can't bake without it.|Now we have to stop.] [And it was going so well!|]", "sad")
    w.p()
    w.say("m", "[Well, every cook has a day like this.|It happens to the best.|Nothing is ever quite lost in a kitchen.] [Let's think.|What can we make of it?|Shall we try again?]", "kind")
    if trouble == "egg":
        w.t("{h} ran [next door|across the street] and [asked very politely|knocked]. The neighbour had just what they needed, and [asked only for a slice in return|gave it gladly].")
    elif trouble == "drop":
        w.t("[the top half was still clean|the middle was still good]. They cut it into small [stars|hearts|moons] and put [a strawberry|a cherry|a spoon of cream] on each.")
    else:
        w.t("[So they|They] washed the bowls and began again, and this time [{h} read the label twice|{h} sat in front of the oven and watched|they tasted everything first].")
    w.t("<at_last> [it was done|everything was ready], and it smelled so good that [the dog sang|people in the street stopped|even the cat woke up].")
    w.t("{who} [took one bite|tasted it] and closed both eyes. \"[How did you make this?|Is there any more?|It is wonderful!]\"",
        "when {who} saw it, there was [a loud cheer|a long happy silence].")
    w.say("h", "[It has a long story.|It was not as easy as it looks.|You would not believe what happened.] [And it has one secret in it.|]", "glad")
    close(w, "try", "the kitchen", "and not one crumb was left.", "the next time, {h} [checked the jar|watched the oven|shut the dog out] before {h.he} began.")


def seed(w):
    w.child()
    w.elder("m", relations=("grandmother", "grandfather", "aunt", "uncle"))
    opening(w)
    w.p()
    w.set("plant", "sunflower", "bean", "pumpkin", "apple tree", "rose", "tulip", "tomato plant")
    w.t("{day} {m} gave {h} a [tiny|small|wrinkled] [seed|brown seed]. \"[There is a {plant} in here|A {plant} is sleeping inside],\" {m.he} said.",
        "{day} {h} found a [tiny|small brown] seed in {m}'s [pocket|drawer|old coat]. \"[Plant it and see|That may become a {plant}],\" said {m.call}.")
    w.t("{h} [dug a hole|made a hole with {h.his} thumb], put the seed in and [covered it with earth|tucked it in like a baby]. {h.he} watered it [and sat down to wait|with {h.his} little can].")
    w.t("[the next day|on the second day], nothing had happened. [The day after|On the third day], nothing had happened either.",
        "an hour passed. Then a day. Then [three days|a week]. [Nothing|Not one green leaf].")
    w.say("h", "[Why won't it grow?|Is it broken?|Maybe it has forgotten how.] [I water it every day!|I even sang to it.]", w.pick(("sad", "cross")))
    w.maybe(0.5, "{h} wanted to dig it up [to look|and see if it was still there], but {m} [shook {m.his} head|held {h.his} hand].")
    w.say("m", "[Under the ground it is very busy.|A seed works in the dark where nobody can see.|You did not learn to walk in a day either.] [Give it time.|Wait a little longer.]", "kind")
    w.p()
    w.t("so {h} waited. {h.he} [read to it|told it the news|kept the snails away|pulled out the weeds], and [it rained|the sun shone] and [the days grew longer|the weeks went by].",
        "{h} waited, and while {h.he} waited {h.he} [drew pictures of the {plant}|learned the names of the birds|made a little fence of sticks].")
    w.t("then, one morning, [there was a tiny green tip|something green peeped out of the earth|the earth had a crack, and in the crack was a leaf][, no bigger than a fingernail|].")
    w.say("h", "[It's here!|It woke up!|Come and look!] [It's so small!|I knew it could do it.]", "shout")
    w.t("[It grew and grew|Every day it was a little taller]. By [the end of summer|autumn], it was [taller than {h.him}|as high as the fence|the pride of the whole garden].")
    w.t("{h} [saved|kept] one [new|] seed and [gave it to {h.his} friend|put it in a paper bag|hid it in {h.his} treasure box]. \"[There is a {plant} in here|Be patient with it],\" {h.he} said.")
    close(w, "patience", "the little seed", "and [every spring|each year] {h} planted another one[, right beside the first|].")


def broken(w):
    w.child()
    w.elder("m")
    w.set("vase", "blue vase", "best teapot", "big white bowl", "old clock", "painted plate", "glass bird", "favourite cup")
    opening(w)
    w.p()
    w.t("{day} {h} was [playing ball in the house|dancing in the front room|riding the broom like a horse|running down the stairs], though {h.he} knew {h.he} should not.",
        "{day} {h} [threw {h.his} ball just a little too high|spun around just once too often|jumped from the sofa to the chair].")
    w.t("[crash|smash|bang]. {m}'s {vase} [fell from the shelf|hit the floor|lay on the floor] [in pieces|and broke].",
        "{h.his} elbow [hit|bumped] {m}'s {vase}. It wobbled, it tipped, and it [fell|broke into seven pieces].")
    w.t("{h} [stood very still|held {h.his} breath|went cold]. [Nobody had seen|No one had heard]. {h.he} [swept the pieces under the rug|hid the pieces in a drawer|pushed everything behind the curtain].")
    w.t("[at supper|at dinner], {h} could not eat. The [potatoes|soup] tasted of nothing, and [the secret sat in {h.his} stomach like a stone|{h.he} felt as if everybody could see it].",
        "all afternoon {h} [was very quiet|could not play]. [The secret grew heavier|It felt like carrying a stone] every minute.")
    w.maybe(0.5, "\"[Are you ill|Is something wrong]?\" asked {m}. {h} [shook {h.his} head|looked away].")
    w.p()
    w.t("<at_last> {h} could not bear it any longer. {h.he} [went to {m}|took a deep breath|knocked on the kitchen door].",
        "that evening, {h} [took the pieces out again|put the pieces in a box] and carried them to {m}.")
    w.say("h", "[It was me.|I have to tell you something.] I broke your {vase}[, and then I hid it|]. I am [so|very, very] sorry.", w.pick(("sad", "soft")))
    w.t("{m} [was quiet for a moment|looked at the pieces|sat down]. Then {m.he} [put an arm around {h}|took {h.his} hand|gave {h} a hug].")
    w.say("m", "[A {vase} is only a thing.|Things break.|I was sad about it, but I am not angry.] [Thank you for telling me.|It took courage to say that.|The truth is worth more to me.]", "kind")
    w.t("[Together they|The two of them] glued it [back together|piece by piece]. It had [cracks like little rivers|a crooked line down the side] now, and [{m.he} said {m.he} liked it even better|it stood on the shelf again].")
    close(w, "honest", "the {vase}", "{h} felt [as light as a feather|ten pounds lighter] and ate two helpings of pudding.",
          "from then on, {h} played ball [outside|in the garden] .")


def bedtime_sibling(w):
    w.child()
    w.child("f")
    w.elder("m")
    opening(w)
    w.p()
    w.t("{h} had a [little|baby] {f.sib} named {f}, who [followed {h.him} everywhere|copied everything {h.he} did|was always in the way].")
    w.say("h", "[{f} is too small for anything.|Why must {f} always come too?|I want to do something on my own.]", "cross")
    w.t("{day} {h} [ran off|slipped away] to [the tree house|the attic|the den behind the hedge] and [pulled up the ladder|shut the door]. \"[No {f}s allowed|Keep out],\" said a sign.",
        "{day} {h} [went fishing|went to play|climbed the hill] alone, [very fast, so that {f} could not follow|without saying a word].")
    w.t("at first it was [lovely|fine] and quiet. Then it was [too quiet|only quiet]. There was no one to [laugh at {h.his} jokes|be the crew of {h.his} ship|hold the other end of the rope].")
    w.p()
    w.t("then [{h.he} slipped and got stuck|{h.his} foot got caught between two boards|the door jammed]. {h.he} [pulled and pushed|tugged and twisted], but [it was no use|nothing moved].")
    w.say("h", "[Help!|Is anybody there?] [I'm stuck!|Can anyone hear me?]", "shout")
    w.t("[For a long while|For some time] nobody came. Then [a small face|two round eyes] [appeared|peeped through a gap]. It was {f}[, of course|].")
    w.say("f", "[I followed you.|I was only playing quietly nearby.] [Wait, I'm small. I can fit through.|I can crawl in. I'm little enough.]", "glad")
    w.t("{f} [wriggled|squeezed] through [the hole|the gap] that was far too narrow for {h}, and [pulled the board aside|pushed the latch|worked {h.his} shoe loose].")
    w.t("{h} [looked at {h.his} {f.sib}|hugged {f} hard]. \"[It's a good thing you are small|I am glad you always follow me],\" {h.he} said.")
    w.t("[after that|then] they painted a [new|] sign together. It said: [\"{h} and {f} only\"|\"Welcome, {f}\"|\"Two captains live here\"].")
    close(w, "friend", "{f}", "and {f}? {f.he} followed {h} home, three steps behind, as always.", "that night, {h} read {f} [two stories instead of one|the whole book, with voices].")


def new_baby_blanket(w):
    w.child()
    w.elder("m", relations=("grandmother", "grandfather"))
    opening(w)
    w.p()
    w.t("{day} {h} went to [visit|stay with] {m}, who lived [by the sea|up in the hills|at the other end of the valley].",
        "{day} {m} [was ill in bed|had a cold|had hurt {m.his} foot], and {h} [came to help|brought {m.him} some soup].")
    w.t("in the back room stood [a big trunk|a chest with a brass lock|a cupboard {h} had never seen open].")
    w.say("h", "[What is in there?|May I look inside?]", "ask")
    w.say("m", "[Memories.|Stories, mostly.|All the years I have lived.] [Choose one thing, and I will tell you about it.|Take something out, and I will tell you where it comes from.]", "kind")
    w.set("item", "a button from a sailor's coat", "a small tin whistle", "a pressed blue flower", "a ticket for a balloon ride", "a letter tied with string", "one red mitten", "a key with no door", "a wooden horse with three legs")
    w.t("{h} [reached in|closed {h.his} eyes and reached in] and took out {item}.")
    w.p()
    w.t("{m} [held it to the light|turned it in {m.his} fingers] and [smiled|laughed softly]. \"[I was just as old as you are now|It was the winter of the great snow|That was long before your mother was born],\" {m.he} began.")
    w.t("{m.he} told of [a ship that sailed without a captain|a night when the whole village danced on the ice|a horse that would only walk backwards|a storm that blew the washing to the next town|a boy who could whistle like a blackbird], and [{h} forgot the time|the room grew dark around them|{h} could almost smell the salt and the smoke].")
    w.say("h", "[Did that really happen?|Is that true?|And what happened then?]", "ask")
    w.say("m", "[Every word, or nearly.|As true as I sit here.|That is a story for tomorrow.]", "glad")
    w.t("when {h} went home, {m} [put it in {h.his} hand|closed {h.his} fingers around it]. \"[Now you keep the story|It is yours now],\" {m.he} said. \"[Stories like to travel|Tell it to someone one day].\"")
    close(w, "", "the story", "and years later, when {h} was old and grey, a child asked, \"What is in that box?\" and {h} smiled.",
          "{h} told it to [everyone|all {h.his} friends], and each time it grew a little longer.")


PLOTS = (lost_toy, two_and_one, rainy_day, night_noise, cake, seed, broken, bedtime_sibling, new_baby_blanket)
