"""Word lists used by the templates as <list>. Options may themselves be templates."""

_LISTS = """
glad: happy|glad|pleased|delighted|cheerful|full of joy
very_glad: so happy|overjoyed|as happy as could be|happier than ever|so pleased|full of joy|delighted
sad: sad|unhappy|gloomy|downhearted|sorry|close to tears
very_sad: very sad|so sad|terribly sad|close to tears|quite miserable|heavy-hearted
scared: afraid|scared|frightened|a little afraid|rather frightened|nervous
tired: tired|sleepy|worn out|weary|very tired
proud: proud|very proud|prouder than a king|proud and happy
surprised: surprised|amazed|astonished|very surprised|quite astonished
angry: angry|cross|grumpy|upset|very cross
shy: shy|quiet|a bit shy|bashful
big: big|large|huge|great|enormous
small: small|little|tiny|wee
nice: nice|lovely|fine|wonderful|splendid|pretty
good_taste: delicious|sweet|tasty|warm and sweet|just right
old: old|very old|ancient
looked: looked|peered|glanced|searched
shouted: shouted|called|cried|yelled
whispered: whispered|murmured|said softly|said in a small voice|said quietly
laughed: laughed|giggled|chuckled|laughed out loud
smiled: smiled|grinned|smiled warmly|beamed
cried_tears: began to cry|started to cry|felt tears in {h.his} eyes|had to blink back tears|sniffed sadly
quickly: quickly|as fast as {h.he} could|at once|right away|without waiting a moment
slowly: slowly|carefully|bit by bit|step by step|little by little
suddenly: suddenly|all of a sudden|just then|at that very moment|in that instant|then
after_while: after a while|a little later|before long|soon|not long after that|some time later|by and by
at_last: at last|finally|in the end|after a long time|when all seemed lost
next_day: the next day|the next morning|early the next day|the following morning|when the sun came up again
all_day: all day long|from morning to night|the whole day|from breakfast to bedtime|all afternoon
but: but|but then|however,|only
so: so|and so|that is why
thought: thought|thought about it|thought hard|thought for a long moment|scratched {h.his} head and thought
very: very|really|terribly|ever so|truly
many: many|lots of|plenty of|a great many|more than a hundred
friend_adj: good|kind|dear|true|loyal|best
colour: red|blue|green|yellow|orange|purple|white|golden|silver|striped|brown|pink
bright_colour: red|blue|green|yellow|orange|purple|golden|bright red|deep blue|sky blue
flower: daisy|tulip|rose|bluebell|poppy|buttercup|sunflower|violet
flowers: daisies|tulips|roses|bluebells|poppies|buttercups|sunflowers|violets|snowdrops|wild flowers
tree: oak tree|apple tree|pine tree|willow|cherry tree|birch tree|chestnut tree|pear tree|fir tree
fruit: apple|pear|plum|peach|orange|fig
fruits: apples|pears|plums|cherries|peaches|strawberries|blueberries|raspberries|grapes
vegetables: carrots|potatoes|onions|beans|peas|leeks|pumpkins|turnips
soup: carrot soup|onion soup|pea soup|pumpkin soup|potato soup|vegetable soup|bean stew
cake: chocolate cake|apple cake|lemon cake|honey cake|carrot cake|cherry pie|plum cake|ginger cake|blueberry pie
bread: warm bread|fresh rolls|crusty bread|raisin buns|warm buns|toast with honey|bread and butter
drink: warm milk|hot chocolate|mint tea|apple juice|honey tea|lemonade|cocoa
snack: cheese and bread|a ripe apple|honey cake|a plum bun|a handful of nuts|some berries|a slice of pie|a ginger biscuit
sky: the sky was blue|the sun was shining|the air smelled of grass|small white clouds drifted by|a soft wind blew|birds were singing|the air was warm and still|the sun was warm
morning_sky: the sun was just coming up|the grass was wet with dew|the sky was pink|birds were singing in the trees|mist lay over the fields|the first bees were humming
evening_sky: the sky turned pink and gold|the sun went down behind the hills|the first stars came out|the moon rose over the trees|the shadows grew long|lamps were lit in the windows
night_sky: the moon was round and bright|the stars were out|an owl called far away|the wind was soft|everything was still|the moon shone through the window
rain_sound: rain tapped on the roof|rain drummed on the window|drops ran down the glass|the gutters gurgled|puddles grew in the lane
village: a small village by the sea|a little town on a hill|a quiet village near the forest|a village with crooked chimneys|a little town beside a river|a small village between two hills|a sleepy little town|a village at the end of a long road|a fishing village|a green valley|a village where everyone knew everyone|a windy village on the coast|a mountain village|a small town with a tall clock tower
home: in a small house|in a cottage with a green door|in a tall, narrow house|in a little white house|in a house with a crooked roof|on a small farm|in a house by the river|at the edge of the village|in a cottage near the woods|next to the bakery|above a shoe shop|at the end of a quiet street|in a house full of books|at the top of a hill|near the harbour
search_home: under the bed|behind the door|in the toy box|under the table|behind the curtains|inside the big cupboard|on the shelf|in the laundry basket|under every cushion|beneath the stairs|in the kitchen drawer|behind the clock|inside {h.his} boots
search_out: behind the bushes|under the bench|in the long grass|beside the path|under a pile of leaves|behind the shed|near the fence|among the flowers|by the well|under the bridge|between the roots of the old tree|behind the woodpile
moral_kind: kindness costs nothing|a kind word can change a whole day|a small kindness can grow very big|kindness always finds its way home|being kind is never a waste of time|a gentle heart is stronger than a loud voice
moral_share: things are more fun when you share them|a treat tastes better when it is shared|sharing makes one thing into two|half a cake with a friend is better than a whole cake alone|what you share comes back to you
moral_try: you only fail when you stop trying|hard things get easier when you practise|every big thing starts with a small try|it is all right to fall down, as long as you get up again|nobody is good at everything the first time|slow and steady work is still work
moral_brave: being brave does not mean you are not afraid|even small ones can be brave|most scary things are smaller when you look at them closely|you can be frightened and still take the next step|courage can be very quiet
moral_honest: telling the truth makes the heart light|the truth is easier to carry than a secret|a mistake is only a mistake, but a lie grows|it is better to say sorry than to hide|honest words can mend almost anything
moral_friend: a good friend is worth more than gold|two heads are better than one|friends make every road shorter|a friend can come in any shape and size|you are never lost when a friend is looking for you|the best things are done together
moral_patience: good things take time|you cannot hurry a seed|waiting is easier when you do it together|some gifts come slowly|patience is a kind of magic
moral_self: everyone is good at something|you do not have to be big to matter|being different can be a gift|it is best to be yourself|nobody else can be you
moral_greed: enough is as good as a feast|the one who wants everything often ends up with nothing|too much of a good thing is still too much|it is better to leave some for others
moral_proud: it is better to be kind than to be first|nobody likes a boaster|a loud voice does not make you right|everyone needs help sometimes, even the strongest
"""

LISTS = {
    name: tuple(option.strip() for option in options.split("|"))
    for name, options in (line.split(":", 1) for line in _LISTS.strip().splitlines())
}
