"""``vgpu-scheduler simulate --trace``: replays traces under several policies."""
