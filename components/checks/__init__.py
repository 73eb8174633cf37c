"""The rules across rooms: all run, all reported, nothing touched."""
