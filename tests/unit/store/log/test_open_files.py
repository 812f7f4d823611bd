"""The files that are open, and which is closed when there is one too many."""

import os
import resource

from cases import each_case
from orbitmq.store.local_disk import LocalDisk
from orbitmq.store.log.open_files import OpenFiles, affordable_files, allowed_descriptors, allowed_maps
from orbitmq.store.log.segment import Segment


def segments_of(directory, count, open_files, *, is_one_of_many=True):
    disk = LocalDisk()
    return [
        Segment(disk, directory, number * 4096, 4096, 4096, is_one_of_many=is_one_of_many, open_files=open_files)
        for number in range(count)
    ]


def open_below(directory):
    """Return which files below a directory this process has open, by their number."""
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    paths = [os.readlink(link) for link in links if os.path.islink(link)]
    return sorted(int(os.path.basename(path)) // 4096 for path in paths if path.startswith(str(directory)))


def test_no_more_files_are_open_than_allowed_and_each_can_be_used_again(tmp_path):
    files = OpenFiles(3)
    segments = segments_of(tmp_path, 10, files)
    for number, segment in enumerate(segments):
        segment.file.write(0, bytes([number]))
        assert len(open_below(tmp_path)) == files.descriptors <= 3
    assert [segment.file.read(0, 1) for segment in segments] == [bytes([number]) for number in range(10)]
    assert (files.descriptors, files.maps, files.evicted_count) == (3, 0, 17)


def test_who_was_used_since_the_last_look_stays_open(tmp_path):
    segments = segments_of(tmp_path, 5, OpenFiles(3))
    for segment in segments[:4]:
        _ = segment.file  # the fourth takes the mark of all, and the first goes
    assert open_below(tmp_path) == [1, 2, 3]
    _ = segments[1].file
    _ = segments[4].file
    assert open_below(tmp_path) == [1, 3, 4]


def test_a_file_that_is_held_stays_open_beyond_the_limit(tmp_path):
    files = OpenFiles(2)
    segments = segments_of(tmp_path, 4, files)
    for segment in segments[:3]:
        segment.hold()
    assert (open_below(tmp_path), files.descriptors) == ([0, 1, 2], 3)
    for segment in segments[:3]:
        segment.release()
    _ = segments[3].file
    assert 3 in open_below(tmp_path)
    assert files.descriptors == 2


def test_a_file_that_is_closed_while_it_is_held_closes_with_its_last_holder(tmp_path):
    files = OpenFiles(2)
    (segment,) = segments_of(tmp_path, 1, files)
    file = segment.hold()
    segment.hold()
    segment.close()
    segment.release()
    file.write(0, b"still open")
    segment.release()
    assert (open_below(tmp_path), files.descriptors) == ([], 0)
    segment.close()
    assert segment.file.read(0, 5) == b"still"
    segment.close()


def test_a_mapped_file_takes_two_descriptors_and_a_map(tmp_path):
    files = OpenFiles(4)
    segments = segments_of(tmp_path, 3, files, is_one_of_many=False)
    for segment in segments:
        segment.buffer[0] = 7
    assert (files.descriptors, files.maps, len(open_below(tmp_path))) == (4, 2, 4)
    for segment in segments:
        segment.close()
    assert (files.descriptors, files.maps) == (0, 0)


def test_a_slice_that_a_reader_holds_outlives_the_closing_of_its_file(tmp_path):
    segments = segments_of(tmp_path, 3, OpenFiles(2), is_one_of_many=False)
    segments[0].buffer[:5] = b"hello"
    view = memoryview(segments[0].buffer)[:5]
    _ = segments[1].file, segments[2].file
    assert bytes(view) == b"hello"
    view.release()
    assert 0 not in open_below(tmp_path)


@each_case(
    (0, 4096, 65_530, 1024),
    (0, 1_048_576, 65_530, 65_530),
    (0, 0, 65_530, 65_530),
    (0, 20, 65_530, 16),
    (100, 4096, 65_530, 100),
    (5000, 4096, 65_530, 1024),
    (5, 4096, 65_530, 16),
    (0, 4096, 900, 900),
)
def test_a_store_takes_a_quarter_of_the_descriptors_and_half_of_the_maps(wanted, descriptors, maps, affordable):
    assert affordable_files(wanted, descriptors, maps) == affordable


def test_what_the_process_may_have_is_asked_of_the_system(monkeypatch, tmp_path):
    assert allowed_maps() > 1000
    monkeypatch.setattr("orbitmq.store.log.open_files._MAP_LIMIT", tmp_path / "nothing")
    assert allowed_maps() == 65_530
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (4096, 20_000))
    assert allowed_descriptors() == 4096
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert allowed_descriptors() == 0
