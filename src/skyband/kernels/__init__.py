"""Compiled loops over columns: free functions on arrays, no objects, no floating-point shortcuts."""
