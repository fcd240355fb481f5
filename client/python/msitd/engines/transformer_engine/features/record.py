"""nvdlfw_inspect runs this file."""

from msitd.engines.transformer_engine.feature import define

define()
