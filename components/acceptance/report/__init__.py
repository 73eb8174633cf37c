"""The acceptance report: HTML, Markdown, CTRF and JSON."""
