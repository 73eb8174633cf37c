"""What is run where there is a network, and by no test of the product."""
