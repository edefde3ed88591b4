"""The process that plans: see `geoveil.console.child`."""

from geoveil.console.child import main
from geoveil.console.planning.answers import Planner

if __name__ == "__main__":
    main(lambda: Planner().answer)
