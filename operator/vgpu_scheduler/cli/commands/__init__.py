"""What each command takes; nothing here imports what takes time."""
