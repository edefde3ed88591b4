"""Private selection put to use, each application a function that a trusted curator runs."""

from geoveil.selection.contrib.betweenness import Graph, egocentric_betweenness
from geoveil.selection.contrib.estimator import NotFittedError, PrivateClassifier
from geoveil.selection.contrib.forest import PrivateRandomForest
from geoveil.selection.contrib.forest_labels import LABELLERS
from geoveil.selection.contrib.influence import Influence
from geoveil.selection.contrib.influence_selection import (
    NODE_METHODS,
    TopNodes,
    top_k_nodes,
)
from geoveil.selection.contrib.percentile import Percentile
from geoveil.selection.contrib.percentile_selection import (
    PERCENTILE_METHODS,
    PercentileEstimate,
    percentile,
)
from geoveil.selection.contrib.transmission_known import Transmission
from geoveil.selection.contrib.transmission_methods import VARIANT_METHODS
from geoveil.selection.contrib.transmission_selection import (
    SignificantVariant,
    most_significant,
)
from geoveil.selection.contrib.tree import PrivateDecisionTree
from geoveil.selection.contrib.tree_selection import SPLITTERS

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
