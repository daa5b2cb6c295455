"""The bundle's program: a child process where it is asked for one, else the application. Not imported from source."""

import multiprocessing
import sys

from engine.child_process import CHILD, run_child

if __name__ == "__main__":
    multiprocessing.freeze_support()
    if sys.argv[1:2] == [CHILD]:
        run_child(sys.argv[2:])
    else:
        from app.__main__ import run_process
        from app.environment import leave_bundle_libraries

        leave_bundle_libraries()
        sys.exit(run_process())
