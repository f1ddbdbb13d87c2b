"""The default: one staircase skyband for all queries, behind a prefilter with one threshold per pane."""
