"""The name of HAMi's dialect."""

NAME = "hami"
