"""The causes behind the reasons of nodes and cards: the field of an object, and its value."""
