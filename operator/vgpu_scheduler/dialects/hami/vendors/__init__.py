"""Facts per maker of devices."""
