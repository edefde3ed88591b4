"""The process that plans: see `geoveil.console.process`."""

from geoveil.console.planning.answers import Planner
from geoveil.console.process import main

if __name__ == "__main__":
    main(lambda: Planner().answer)
