"""Stand-ins of Pulumi plugins, for machines where the real ones cannot be had."""
