# SPDX-License-Identifier: MIT
"""The picture of a training, as SVG by hand: the loss above, the accuracy below."""
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, PANEL, TOP, GAP = 760, 64, 24, 190, 54, 44
INK, FAINT, LINE, BLUE, RED = "#57606a", "#8c959f66", "#8c959f33", "#2f6fd0", "#d0572f"


def smooth(values, weight=0.8):
    """A running mean that follows within about five values, without leaning on the first one."""
    mean, total, out = 0.0, 0.0, []
    for value in values:
        mean = weight * mean + (1 - weight) * value
        total = weight * total + (1 - weight)
        out.append(mean / total)
    return out


def path(xs, ys):
    return "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in zip(xs, ys))


def nice_steps(most, parts=5):
    """A round distance of ticks that makes about |parts| of the range."""
    step = 1
    while most / step > parts:
        step = step * 2 if str(step)[0] == "1" else step * 5 // 2 if str(step)[0] == "2" else step * 2
    return step


def panel(top, title, steps, values, low, high, ticks, label, colour):
    """One chart: faint values, their running mean, and a grid."""
    last = max(steps[-1], 1)
    xs = [LEFT + (WIDTH - LEFT - RIGHT) * step / last for step in steps]

    def at(value):
        return top + PANEL * (1 - (min(max(value, low), high) - low) / (high - low))

    parts = [f'<text x="{LEFT}" y="{top - 10}" font-weight="600">{escape(title)}</text>']
    for tick in ticks:
        parts.append(f'<path d="M{LEFT} {at(tick):.1f} H{WIDTH - RIGHT}" stroke="{LINE}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at(tick) + 4:.1f}" text-anchor="end">{label(tick)}</text>')
    gap = nice_steps(last)
    for tick in range(0, last + 1, gap):
        x = LEFT + (WIDTH - LEFT - RIGHT) * tick / last
        parts.append(f'<text x="{x:.1f}" y="{top + PANEL + 18}" text-anchor="middle">{tick:,}</text>')
    parts.append(f'<path d="{path(xs, map(at, values))}" fill="none" stroke="{FAINT}"/>')
    parts.append(f'<path d="{path(xs, map(at, smooth(values)))}" fill="none" stroke="{colour}" stroke-width="2"/>')
    return parts, at


def draw(title, steps, losses, accuracies, tested):
    """SVG text of a training whose loss and accuracy were seen at |steps|, with the accuracy on the test set at its end."""
    height = TOP + 2 * PANEL + GAP + 40
    most = max(0.5, min(2.5, max(losses)))
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif" font-size="12" '
             f'fill="{INK}">', f'<text x="{LEFT}" y="20" font-size="14">{escape(title)}</text>']
    ticks = [i * 0.5 for i in range(int(most / 0.5) + 1)]
    parts += panel(TOP, "training loss", steps, losses, 0, most, ticks, lambda t: f"{t:.1f}", BLUE)[0]
    title = f"accuracy on the batch; the dot is the test set, {100 * tested:.2f}%"
    below, at = panel(TOP + PANEL + GAP, title, steps, accuracies, 0.8, 1, [0.8, 0.85, 0.9, 0.95, 1],
                      lambda t: f"{100 * t:.0f}%", RED)
    parts += below
    parts.append(f'<circle cx="{WIDTH - RIGHT}" cy="{at(tested):.1f}" r="4" fill="{INK}"/>')
    return "\n".join(parts) + "\n</svg>\n"
