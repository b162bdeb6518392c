"""Trajectories in HDF5 (H5MD 1.1) that survive a kill, and restart files; arrays in, no engine."""

from md_gie.trajectory.layout import Frame, Observable, TrajectoryHeader, TrajectoryOptions
from md_gie.trajectory.reader import H5MDReader
from md_gie.trajectory.restart import Restart, RestartFiles
from md_gie.trajectory.writer import H5MDWriter

__all__ = [
    "Frame",
    "H5MDReader",
    "H5MDWriter",
    "Observable",
    "Restart",
    "RestartFiles",
    "TrajectoryHeader",
    "TrajectoryOptions",
]
