"""What keeps a pod from nodes and cards: the field of which object, and what it says."""
