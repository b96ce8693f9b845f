"""Why a pod waits, or is where it is: the answer as a whole, and who would have to go for it."""
