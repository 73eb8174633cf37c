"""The component package `railyard`, for Pulumi programs in every language."""

from stacks.site_host import main

main()
