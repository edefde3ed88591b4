"""Version 1. A field never changes its meaning; new ones are added."""
