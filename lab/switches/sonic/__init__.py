"""An emulated SONiC switch: bash over SSH, CONFIG_DB, and the commands of sonic-utilities."""
