"""Words and numbers that real parts gave, as `make lab-pods` saw them."""
