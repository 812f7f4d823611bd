"""The plot of departure delays by carrier and hour."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def plot_delays(hourly: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw mean and 95th percentile of departure delays by carrier and hour."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    carriers = sorted({row["carrier"] for row in hourly})
    hours = sorted({row["hour"] for row in hourly})
    by_group = {(row["carrier"], row["hour"]): row for row in hourly}
    figure, panels = pyplot.subplots(1, 2, figsize=(14, 6), layout="constrained")
    for panel, column, title in zip(panels, ("mean_delay", "p95_delay"), ("mean", "95th percentile"), strict=True):
        grid = [[_number(by_group.get((carrier, hour), {}).get(column)) for hour in hours] for carrier in carriers]
        image = panel.imshow(grid, aspect="auto", cmap="viridis")
        panel.set(title=f"Departure delay, {title} (minutes)", xlabel="scheduled hour", ylabel="carrier")
        panel.set_xticks(range(len(hours)), hours)
        panel.set_yticks(range(len(carriers)), carriers)
        figure.colorbar(image, ax=panel)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
