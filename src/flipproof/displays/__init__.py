"""Pictures of results: curves, histograms and intervals, and the view in notebooks."""

from flipproof.displays.curves import AttackDisplay, CertifiedAccuracyDisplay
from flipproof.displays.interval_display import CertifiedIntervalDisplay
from flipproof.displays.radius_histogram import RadiusHistogramDisplay

__all__ = ["AttackDisplay", "CertifiedAccuracyDisplay", "CertifiedIntervalDisplay", "RadiusHistogramDisplay"]
