"""Lines of JmxTool about the gauges of log directories."""

from __future__ import annotations

from lab.cluster.kafka_metrics import GaugeChange, GaugeLines

GAUGE = '"kafka.log:type=LogManager,name=LogDirectoryOffline,logDirectory="{}":Value"'
NAMES = f'"time",{GAUGE.format("/d/1")},{GAUGE.format("/d/2")}\n'


def read(*lines: str) -> list[GaugeChange]:
    gauges = GaugeLines()
    return [change for line in lines for change in gauges.read(line)]


def test_a_gauge_that_changes_is_news_at_the_time_of_the_look() -> None:
    assert read(NAMES, "1000,0,0\n", "1250,0,1\n", "1500,0,1\n", "1750,0,0\n") == [
        GaugeChange("/d/2", True, 1250),
        GaugeChange("/d/2", False, 1750),
    ]


def test_a_directory_that_is_offline_at_first_is_news() -> None:
    assert read(NAMES, "1000,1,0\n") == [GaugeChange("/d/1", True, 1000)]


def test_a_reader_that_starts_again_tells_only_what_changed() -> None:
    swapped = f'"time",{GAUGE.format("/d/2")},{GAUGE.format("/d/1")}\n'
    assert read(NAMES, "1000,1,0\n", swapped, "2000,0,1\n") == [GaugeChange("/d/1", True, 1000)]


def test_lines_that_are_no_look_are_passed_over() -> None:
    url = "Trying to connect to JMX url: service:jmx:rmi:///jndi/rmi://127.0.0.1:1/jmxrmi\n"
    assert read(url, "1000,1,0\n", NAMES, "1000,1\n", "\n", "No matched attributes\n") == []


def test_a_path_with_a_quotation_mark_is_read_as_it_is() -> None:
    name = f'"time",{GAUGE.format(chr(92).join(("/d/", chr(34) + "x")))}\n'
    assert read(name, "7,1\n") == [GaugeChange('/d/"x', True, 7)]
