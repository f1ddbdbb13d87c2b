"""What goes out: answers as rows and as tables, what changed between two of them, notices of subscriptions."""
