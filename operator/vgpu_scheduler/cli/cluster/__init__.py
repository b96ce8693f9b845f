"""What commands about a cluster share: their options, how it is read, and how answers and warnings are printed."""
