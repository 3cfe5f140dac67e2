"""Rows are append-only, survive a crash in the middle of a line, and are read back unchanged."""

import numpy as np
import pytest

from flipproof.experiments.row_files import COLUMNS, FINISHED, GROWING, NOTHING, RowFile


def some_rows(start, count):
    index = np.arange(start, start + count)
    columns = {name: index * 10 + place for place, name in enumerate(COLUMNS)}
    return index, index % 3, columns | {"flips_needed": np.full(count, NOTHING)}


def test_rows_are_read_by_run_and_sorted_by_test_row(tmp_path):
    file = RowFile(tmp_path)
    file.append("b", *some_rows(5, 3))
    file.append("a, with a comma", *some_rows(0, 2))
    file.append("b", *some_rows(0, 5))
    runs = file.runs()
    assert set(runs) == {"b", "a, with a comma"}
    np.testing.assert_array_equal(runs["b"].index, np.arange(8))
    np.testing.assert_array_equal(runs["b"]["exact"], np.arange(8) * 10 + COLUMNS.index("exact"))
    assert runs["b"].has("exact")
    assert not runs["b"].has("flips_needed")


def test_appending_does_not_rewrite_existing_rows(tmp_path):
    file = RowFile(tmp_path)
    file.append("a", *some_rows(0, 4))
    before = (tmp_path / GROWING).read_bytes()
    file.append("a", *some_rows(4, 4))
    assert (tmp_path / GROWING).read_bytes().startswith(before)


def test_an_incomplete_last_line_is_ignored(tmp_path):
    file = RowFile(tmp_path)
    file.append("a", *some_rows(0, 4))
    whole = (tmp_path / GROWING).read_bytes()
    (tmp_path / GROWING).write_bytes(whole[:-3])
    np.testing.assert_array_equal(file.runs()["a"].index, np.arange(3))
    file.append("a", *some_rows(3, 2))
    np.testing.assert_array_equal(file.runs()["a"].index, np.arange(5))
    np.testing.assert_array_equal(file.runs()["a"]["kl"], some_rows(0, 5)[2]["kl"])


def test_the_first_of_duplicate_rows_is_used(tmp_path):
    file = RowFile(tmp_path)
    file.append("a", *some_rows(0, 2))
    index, label, columns = some_rows(0, 2)
    file.append("a", index, label, columns | {"exact": np.full(2, 99)})
    np.testing.assert_array_equal(file.runs()["a"]["exact"], columns["exact"])


def test_a_finished_file_does_not_depend_on_the_order_of_the_work(tmp_path):
    contents = []
    in_parts = [("a", 0), ("b", 0), ("a", 3), ("b", 3)]
    for name, order in (("one", in_parts), ("two", in_parts[::-1])):
        folder = tmp_path / name
        folder.mkdir()
        file = RowFile(folder)
        for run, start in order:
            file.append(run, *some_rows(start, 3))
        assert not file.is_finished
        file.finish(["a", "b"])
        assert file.is_finished
        assert not (folder / GROWING).exists()
        contents.append((folder / FINISHED).read_bytes())
        np.testing.assert_array_equal(file.runs()["a"].index, np.arange(6))
    assert contents[0] == contents[1]


def test_a_finished_file_can_grow_and_runs_can_be_removed(tmp_path):
    file = RowFile(tmp_path)
    file.append("a", *some_rows(0, 3))
    file.append("b", *some_rows(0, 3))
    file.finish(["a", "b"])
    file.append("c", *some_rows(0, 3))
    assert set(file.runs()) == {"a", "b", "c"}
    file.keep_only({"b", "c"})
    assert set(file.runs()) == {"b", "c"}
    assert not file.is_finished
    file.finish(["b", "c"])
    file.keep_only({"b", "c"})
    assert (tmp_path / FINISHED).exists()


@pytest.mark.parametrize("names", [set(), {"a"}])
def test_a_new_folder_has_no_rows(tmp_path, names):
    file = RowFile(tmp_path)
    file.keep_only(names)
    assert file.runs() == {}
    assert list(tmp_path.iterdir()) == []


def test_incomplete_runs_are_kept(tmp_path):
    file = RowFile(tmp_path)
    file.append("b", *some_rows(0, 1))
    file.append("a", *some_rows(0, 3))
    file.finish(["a"])
    assert list(file.runs()) == ["a", "b"]


def test_removed_rows_do_not_reappear(tmp_path):
    file = RowFile(tmp_path)
    file.append("a", *some_rows(0, 3))
    file.finish(["a"])
    finished = (tmp_path / FINISHED).read_bytes()
    file.keep_only([])
    (tmp_path / FINISHED).write_bytes(finished)  # as if the power had failed before it was removed
    file.keep_only([])
    (tmp_path / GROWING).unlink()
    assert file.runs() == {}


def cut(content):
    return content[: len(content) // 2]


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (FINISHED, cut, "it cannot be read"),
        (FINISHED, lambda content: b"", "it cannot be read"),
        (FINISHED, lambda content: b"no xz at all", "it cannot be read"),
        (FINISHED, lambda content: content[:30] + b"!" + content[31:], "it cannot be read"),
        (GROWING, lambda content: b"", "its first line"),
        (GROWING, lambda content: b"run,index", "its first line"),
        (GROWING, lambda content: content.partition(b"\n")[2], "its first line"),
        (GROWING, lambda content: b"\xff\xfe" + content, "it cannot be read"),
        (GROWING, lambda content: content + b"\n", "line 5 is not a row"),
        (GROWING, lambda content: content + b"a,1\n", "line 5 is not a row"),
        (GROWING, lambda content: content + b"a,3,,1,1,1,1,,\n", "line 5 is not a row"),
        (GROWING, lambda content: content + b"a,3,0,,1,1,1,,\n", "line 5 is not a row"),
        (GROWING, lambda content: content + b"a,3,0,one,1,1,1,,\n", "line 5 is not a row"),
        (GROWING, lambda content: content + b"a,3,0,1,1,1,1,1,1,1\n", "line 5 is not a row"),
        (GROWING, lambda content: content + b"a,3,0,99999999999999999999,1,1,1,,\n", "line 5 is not a row"),
        (GROWING, lambda content: content + b"\0\0\0\n", "line 5 is not a row|it is not a table"),
    ],
)
def test_a_damaged_file_is_refused_by_name(tmp_path, name, change, message):
    file = RowFile(tmp_path)
    file.append("a", *some_rows(0, 3))
    if name == FINISHED:
        file.finish(["a"])
    path = tmp_path / name
    damaged = change(path.read_bytes())
    path.write_bytes(damaged)
    for use in (file.runs, lambda: file.keep_only({"a"}), lambda: file.finish(["a"])):
        with pytest.raises(OSError, match=rf"{path} is damaged: ({message})") as caught:
            use()
        assert "Delete it" in str(caught.value)
    assert path.read_bytes() == damaged


def test_an_empty_growing_file_is_refused(tmp_path):
    file = RowFile(tmp_path)
    file.append("a", *some_rows(0, 3))
    file.finish(["a"])
    (tmp_path / GROWING).touch()
    with pytest.raises(OSError, match="is damaged"):
        file.append("a", *some_rows(3, 1))
    (tmp_path / GROWING).unlink()
    file.append("a", *some_rows(3, 1))
    np.testing.assert_array_equal(file.runs()["a"].index, np.arange(4))
