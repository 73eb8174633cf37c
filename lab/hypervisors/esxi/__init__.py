"""An emulated VMware ESXi host: ash, esxcli and vim-cmd over SSH."""
