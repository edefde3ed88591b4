"""One file per revision. Its name is the version of the schema that it makes."""
