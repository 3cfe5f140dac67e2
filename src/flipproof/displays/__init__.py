"""Pictures of results: curves, histograms and intervals, and the view in notebooks."""

from flipproof.displays.curves import AttackDisplay, CertifiedAccuracyDisplay, RadiusHistogramDisplay
from flipproof.displays.interval_display import CertifiedIntervalDisplay

__all__ = ["AttackDisplay", "CertifiedAccuracyDisplay", "CertifiedIntervalDisplay", "RadiusHistogramDisplay"]
