"""Files as streams and answers as files: Parquet, CSV and JSON lines; query files."""
