"""One file per lineage: its tiny oracle models, as `TINY`."""
