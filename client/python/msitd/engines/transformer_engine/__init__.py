"""A feature of TransformerEngine's inspection that records its tensors.

import nvdlfw_inspect.api as debug_api
from msitd.engines import transformer_engine

folders = [TE_FEATURES, transformer_engine.FEATURES]
debug_api.initialize("inspect.yaml", feature_dirs=folders)
"""

import os

from msitd.engines.transformer_engine.feature import close

# For `feature_dirs`; the folder defines the feature `MsitdRecord`.
FEATURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "features")

__all__ = ["FEATURES", "close"]
