"""Shows the demo on a terminal: its text scrolls by above, and the picture of the cluster below is drawn again.

The picture has the zones side by side, a bar of pods a node, and the points of the latest decision. For pipes and logs
the story is plain lines, one after the other.
"""

from collections.abc import Callable, Iterable
from textwrap import wrap
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from podberth.testing.demo import witness
from podberth.testing.demo.recording import Act, NodeCard, PodCard, Recording, Step
from podberth.testing.demo.witness import SeenDecision

MARKS = {"scene": "·", "bound": "✓", "pending": "…", "gated": "…", "rejected": "✗", "change": "▸"}
OTHERS = "bright_black"
APPS = ("blue", "magenta", "cyan", "yellow", "green", "bright_blue", "red")
PLUGINS = ("blue", "cyan", "magenta", "yellow", "green", "red", "bright_blue")
COLUMN = 24
"""A zone is at least this wide; fewer fit side by side on a narrow terminal."""
MOST_NODES = 24
BEST = 4


class Lines:
    """Tells the story through `say`, a line and its style a call, in lines of at most `width` characters.

    `brief`: of a bound pod only why the winner won, where a picture shows the rest.
    """

    def __init__(self, say: Callable[[str, str], None], width: int, *, brief: bool = False) -> None:
        self._say = say
        self._brief = brief
        self._width = max(width, 40)
        self._act = 0

    def __call__(self, told: Step | Act) -> None:
        if isinstance(told, Act):
            self._act += 1
            self._say("", "")
            self._wrapped(f"{self._act}. {told.title}", "act", "", "   ")
            self._wrapped(told.text, "text", "   ", "   ")
        else:
            self._wrapped(told.title, told.kind, f"   {MARKS[told.kind]} ", "     ")
            for line in told.lines[-1:] if self._brief and told.kind == "bound" else told.lines:
                hang = " " * (len(line) - len(line.lstrip()))
                self._wrapped(line.lstrip(), "why", f"     {hang}", f"     {hang}  ")

    def summary(self, recording: Recording) -> None:
        """The numbers at the end."""
        self._say("", "")
        self._say("In numbers", "act")
        wide = max((len(number) for number, _, _ in recording.summary), default=0)
        for number, what, note in recording.summary:
            text = f"{what} ({note})" if note else what
            self._wrapped(text, "number", f"   {number:>{wide}}  ", " " * (wide + 5))

    def _wrapped(self, text: str, style: str, first: str, rest: str) -> None:
        for line in wrap(text, self._width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False):
            self._say(line, style)


class Picture:
    """The picture of where everything is, step by step. Feed it with `show`, draw it with `draw`."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeCard] = {}
        self.pods: dict[str, PodCard] = {}
        self.where: dict[str, str] = {}
        self.cordons: dict[str, bool] = {}
        self._fresh = ""
        self._why: SeenDecision | None = None
        self._colours: dict[str, str] = {}

    def show(self, step: Step) -> None:
        """Take in one step."""
        self._fresh = step.pod
        self._why = step.verdict if step.kind == "bound" else None
        self.cordons.update(step.cordons)
        for pod, node in step.puts.items():
            if node is None:
                self.where.pop(pod, None)
            else:
                self.where[pod] = node

    def draw(self, width: int) -> RenderableType:
        """Return the picture in `width` columns."""
        parts: list[RenderableType] = [self._zones(width)]
        waiting = [pod for pod, node in self.where.items() if not node]
        if waiting:
            line = Text(" waiting: ", style="bold")
            for pod in waiting:
                line.append(f" {pod} ", style=f"reverse {self._colour(pod)}").append(" ")
            parts.append(line)
        if self._why is not None and self._why.candidates and self._why.candidates[0].scores:
            parts.append(_points(self._why, width))
        return Group(*parts)

    def _zones(self, width: int) -> RenderableType:
        nodes = list(self.nodes.values())[:MOST_NODES]
        zones: dict[str, list[NodeCard]] = {}
        for node in nodes:
            zones.setdefault(node.zone, []).append(node)
        side_by_side = max(1, min(len(zones), width // COLUMN))
        table = Table.grid(expand=True, padding=0)
        for _ in range(side_by_side):
            table.add_column(ratio=1)
        inner = width // side_by_side - 4
        tall = max((len(found) for found in zones.values()), default=0) if side_by_side > 1 else 0
        panels: list[RenderableType] = [
            Panel(
                Group(
                    *(line for node in found for line in self._node(node, inner)),
                    *[Text(" ")] * (2 * max(tall - len(found), 0)),
                ),
                title=f"zone {zone}" if zone else "nodes",
                title_align="left",
                border_style="dim",
            )
            for zone, found in sorted(zones.items())
        ]
        for start in range(0, len(panels), side_by_side):
            table.add_row(*panels[start : start + side_by_side])
        if len(self.nodes) <= len(nodes):
            return table
        return Group(table, Text(f" … and {len(self.nodes) - len(nodes)} more nodes", style="dim"))

    def _node(self, node: NodeCard, width: int) -> Iterable[Text]:
        here = [self.pods[pod] for pod, where in self.where.items() if where == node.name and pod in self.pods]
        used = sum(pod.cpu for pod in here)
        mark = " ⊘" if self.cordons.get(node.name, node.cordoned) else " ◆" if node.taints else ""
        tail = f" {witness.cores(used)}/{witness.cores(node.cpu)}"
        name_width = max(6, min(max(len(other.name) for other in self.nodes.values()), width // 3)) + 2
        head = Text(f"{node.name}{mark}"[:name_width].ljust(name_width), style="bold")
        bar = self._bar(here, node.cpu, max(width - name_width - len(tail), 4))
        yield Text.assemble(head, bar, (tail, "dim"), no_wrap=True, overflow="crop")
        yield self._names(here, width)

    def _bar(self, pods: list[PodCard], cpu: int, width: int) -> Text:
        """Return each pod's share of the node's cpu, in its colour; the rest is free."""
        bar = Text()
        done = used = 0
        for pod in pods:
            used += pod.cpu
            end = min(round(used * width / max(cpu, 1)), width)
            bar.append(("▓" if pod.name == self._fresh else "█") * (end - done), style=self._colour(pod.name))
            done = max(end, done)
        return bar.append("·" * (width - done), style="dim")

    def _names(self, pods: list[PodCard], width: int) -> Text:
        """Return as many names as there is room for, ours first."""
        line = Text(no_wrap=True, overflow="crop")
        ordered = sorted(pods, key=lambda pod: (pod.name != self._fresh, not pod.mine))
        for i, pod in enumerate(ordered):
            more = f" +{len(ordered) - i}"
            if line.cell_len + len(pod.name) + 1 + (len(more) if i < len(ordered) - 1 else 0) > width:
                line.append(more, style="dim")
                break
            style = self._colour(pod.name) if pod.mine else "dim"
            line.append(f" {pod.name}", style=f"bold reverse {style}" if pod.name == self._fresh else style)
        return line

    def _colour(self, pod: str) -> str:
        card = self.pods.get(pod)
        if card is None or not card.mine:
            return OTHERS
        return self._colours.setdefault(card.app, APPS[len(self._colours) % len(APPS)])


def _points(verdict: SeenDecision, width: int) -> RenderableType:
    """Return the best nodes with their points, a colour a plugin; what gave all nodes the same is only named."""
    shown = verdict.candidates[:BEST]
    deciding = [name for name in verdict.weights if len(verdict.points(name)) > 1]
    flat = [(name, min(verdict.points(name))) for name in verdict.weights if name not in deciding]
    same = ", ".join(f"{witness.plugin_words(name)} {points}" for name, points in flat if points)
    colours = {name: PLUGINS[i % len(PLUGINS)] for i, name in enumerate(deciding)}
    scale = max(sum(max(0, candidate.scores[name][1]) for name in deciding) for candidate in verdict.candidates) or 1
    name_width = min(max(len(candidate.node) for candidate in shown), 20)
    room = max(min(width, 110) - name_width - 12, 10)
    lines = []
    for candidate in shown:
        won = candidate is verdict.winner
        name = f" {'✓' if won else ' '} {candidate.node[-name_width:]:<{name_width}} "
        line = Text(name, style="bold" if won else "")
        done = points = 0
        for name in deciding:
            points += max(0, candidate.scores[name][1])
            end = round(points * room / scale)
            line.append("█" * (end - done), style=colours[name])
            done = max(done, end)
        lines.append(line.append(f" {candidate.total}", style="bold" if won else "dim"))
    legend = Text(" " * (name_width + 4))
    for name in deciding:
        legend.append("■ ", style=colours[name]).append(f"{witness.plugin_words(name)}  ", style="dim")
    lines.append(legend)
    if same:
        lines.append(Text(f"{' ' * (name_width + 4)}not drawn, as all got the same: {same}", style="dim"))
    pod = verdict.pod.rpartition("/")[2]
    title = f" points for {pod}: the best {len(shown)} of {len(verdict.candidates)}"
    return Group(Text(title, style="bold"), *lines)


STYLES = {
    "act": "bold cyan",
    "text": "italic",
    "scene": "bold",
    "bound": "bold green",
    "pending": "bold yellow",
    "gated": "bold yellow",
    "rejected": "bold red",
    "change": "bold magenta",
    "why": "",
    "number": "",
}


class Terminal:
    """Prints each step of the demo, with a live picture where the console can draw one."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._picture = Picture()
        self._lines = Lines(self.say, min(console.width, 110), brief=console.is_terminal)
        self._live: Live | None = None
        if console.is_terminal:
            self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, told: Step | Act, recording: Recording) -> None:
        """Print the next step, and draw the cluster as it is after it."""
        self._lines(told)
        self._picture.nodes, self._picture.pods = recording.nodes, recording.pods
        if isinstance(told, Step):
            self._picture.show(told)
        if self._live is not None and recording.nodes:
            self._live.update(self._picture.draw(self._console.width), refresh=True)

    def summary(self, recording: Recording) -> None:
        """Print the numbers."""
        self._lines.summary(recording)

    def say(self, line: str, style: str = "") -> None:
        """Print one line without wrapping it. `style`: a key of STYLES."""
        self._console.print(Text(line, style=STYLES.get(style, "")), soft_wrap=True)
