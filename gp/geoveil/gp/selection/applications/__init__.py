"""Private selection put to use, each application a function that a trusted curator runs."""

from geoveil.gp.selection.applications.betweenness import Graph, egocentric_betweenness
from geoveil.gp.selection.applications.estimator import NotFittedError, PrivateClassifier
from geoveil.gp.selection.applications.forest import PrivateRandomForest
from geoveil.gp.selection.applications.forest_labels import LABELLERS
from geoveil.gp.selection.applications.influence import Influence
from geoveil.gp.selection.applications.influence_selection import (
    NODE_METHODS,
    TopNodes,
    top_k_nodes,
)
from geoveil.gp.selection.applications.percentile import Percentile
from geoveil.gp.selection.applications.percentile_selection import (
    PERCENTILE_METHODS,
    PercentileEstimate,
    percentile,
)
from geoveil.gp.selection.applications.transmission_known import Transmission
from geoveil.gp.selection.applications.transmission_methods import VARIANT_METHODS
from geoveil.gp.selection.applications.transmission_selection import (
    SignificantVariant,
    most_significant,
)
from geoveil.gp.selection.applications.tree import PrivateDecisionTree
from geoveil.gp.selection.applications.tree_selection import SPLITTERS

__all__ = [
    "LABELLERS",
    "NODE_METHODS",
    "PERCENTILE_METHODS",
    "SPLITTERS",
    "VARIANT_METHODS",
    "Graph",
    "Influence",
    "NotFittedError",
    "Percentile",
    "PercentileEstimate",
    "PrivateClassifier",
    "PrivateDecisionTree",
    "PrivateRandomForest",
    "SignificantVariant",
    "TopNodes",
    "Transmission",
    "egocentric_betweenness",
    "most_significant",
    "percentile",
    "top_k_nodes",
]
