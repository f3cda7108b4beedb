"""A generator of little stories: plots, a cast, words and ways to tell them."""
