"""What a process tells of itself: its log, its numbers, its health."""
