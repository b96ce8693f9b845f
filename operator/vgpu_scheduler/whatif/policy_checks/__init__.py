"""Whether a policy is what it should be: unit tests of policies, and what of one matches nothing."""
