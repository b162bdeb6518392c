"""Bridges from md_gie's engines to simulation programs, one thin file each."""

if __name__ != "md_gie.calculators":
    raise ImportError(
        f"this folder is the package md_gie.calculators, but it was imported as {__name__!r}; "
        'write "import md_gie.calculators" instead'
    )
