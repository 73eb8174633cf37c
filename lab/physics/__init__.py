"""What network tools print in the lab, computed from the state of its devices."""
