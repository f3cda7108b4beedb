"""A generator of short stories: plots, a cast, words, and ways to tell a story."""
