"""What HAMi's dialect is called."""

NAME = "hami"
