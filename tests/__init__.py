"""Tests of all parts. A package, so that one of this name that is installed is not taken for it."""
