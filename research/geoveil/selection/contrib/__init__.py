"""Applications of private selection: functions for a trusted curator."""

from geoveil.selection.contrib.classifier import NotFittedError, PrivateClassifier
from geoveil.selection.contrib.forest import LABEL_RECIPES, PrivateRandomForest
from geoveil.selection.contrib.graphs import Graph, egocentric_betweenness
from geoveil.selection.contrib.influence import (
    NODE_RECIPES,
    Influence,
    TopNodes,
    top_k_nodes,
)
from geoveil.selection.contrib.percentile import (
    PERCENTILE_RECIPES,
    Percentile,
    PercentileEstimate,
    percentile,
)
from geoveil.selection.contrib.splitters import SPLITTERS
from geoveil.selection.contrib.transmission import (
    VARIANT_RECIPES,
    SignificantVariant,
    Transmission,
    most_significant,
)
from geoveil.selection.contrib.tree import PrivateDecisionTree

__all__ = [
    "LABEL_RECIPES",
    "NODE_RECIPES",
    "PERCENTILE_RECIPES",
    "SPLITTERS",
    "VARIANT_RECIPES",
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
