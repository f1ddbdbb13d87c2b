"""What goes out: answers as rows and as tables, changes between two answers, notices of subscriptions."""
