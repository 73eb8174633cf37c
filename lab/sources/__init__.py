"""The web and the registry that a site's files, charts and images come from, played by the lab."""
