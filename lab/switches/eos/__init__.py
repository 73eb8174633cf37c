"""An emulated Arista EOS switch: its command line over SSH, with configuration sessions."""
