"""The only room that imports PySpark: sessions, the engine on Spark, types of both sides."""

from __future__ import annotations

from lentic.spark.session import session

__all__ = ["session"]
