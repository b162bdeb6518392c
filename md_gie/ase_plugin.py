"""What ``ase.io`` needs to know to read ``.h5md`` by :mod:`md_gie.trajectory.ase_io`.

Apart from it, because ASE loads this in every process that reads or writes a file.
"""

from ase.utils.plugins import ExternalIOFormat

h5md_format = ExternalIOFormat(
    desc="H5MD 1.1 trajectory of md_gie",
    code="+S",
    module="md_gie.trajectory.ase_io",
    ext="h5md",
)
