"""HAMi's admission webhook in plain Python."""
