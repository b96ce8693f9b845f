"""What ``vgpu-scheduler demo`` shows: six steps on an embedded cluster, each number measured and checked."""
