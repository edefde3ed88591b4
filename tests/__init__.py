"""Tests of all parts, as a package, so that an installed package of this name is not imported."""
