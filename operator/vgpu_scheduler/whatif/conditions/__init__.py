"""What would help a pod by what its condition and its namespace say, for those who may not see the nodes."""
