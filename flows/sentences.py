"""Events, durations, sizes and figures in words: the same in the terminal and in Prefect's log."""

from typing import Any


def sentence(event: dict[str, Any]) -> str | None:
    """One line for people on an event; None when it says nothing by itself."""
    label = event.get("label", "")
    match event["event"]:
        case "stage_waiting":
            return f"{label}: waiting for {event['holder']}"
        case "note":
            return f"{label}: {event['text']}" if label else str(event["text"])
        case "alert":
            bound = f"{event['kind']} {event['value']:.4g}, bound {event['threshold']:g}"
            return f"{label}: ALERT at step {event['step']}: {bound}"
        case "progress":
            figures = figures_text(event["figures"])
            return f"{label}: {event['done']}/{event['total']} {event['unit']}  {figures}".rstrip()
        case "stage_finished":
            took, tokens = duration(event["seconds"]), f"{event['tokens']:,} tokens"
            figures = figures_text(event["figures"])
            return f"{label}: {event['state']} in {took}, {tokens}  {figures}".rstrip()
    return None


def figures_text(figures: dict[str, float]) -> str:
    """Key figures on one line."""
    return "  ".join(f"{name} {value:.4g}" for name, value in figures.items())


def duration(seconds: float) -> str:
    """A time for people: 0.4 s, 12 s, 3:05 min, 2:10:00 h."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d} h" if hours else f"{minutes}:{rest:02d} min"


def size(num_bytes: int) -> str:
    """Bytes for people: 0 B, 999 B, 1.0 KB, 23.4 MB, 1.2 TB (decimal units)."""
    if num_bytes < 1000:
        return f"{num_bytes} B"
    powers = {"KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
    unit = next((name for name, power in powers.items() if num_bytes < 999.95 * power), "TB")
    return f"{num_bytes / powers[unit]:.1f} {unit}"
