"""What people see in a terminal: leaderboards, the demo, progress."""
