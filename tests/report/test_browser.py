"""The HTML report in a real browser: headless Chromium."""

import base64
import re
import shutil

import numpy as np
import pytest
from patience import until

from flipproof.report.html import render_html

INSTALL = "sudo apt-get install -y chromium chromium-driver && pip install -e '.[browser]'"

pytestmark = pytest.mark.browser
webdriver = pytest.importorskip("selenium.webdriver", reason=f"no selenium: {INSTALL}")

from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.select import Select  # noqa: E402

ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--window-size=1100,900",
)
PHONE_WIDTH = 390  # pixels
A4 = (595, 842)  # points


@pytest.fixture(scope="module")
def driver():
    """Chromium as Debian packages it; skipped if it is missing, which fails in continuous integration."""
    program, service = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or service is None:
        pytest.skip(f"no chromium and chromedriver: {INSTALL}")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(service))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def summary(problem):
    """A complete report."""
    return problem.summary("exact", "tight", "kl")


@pytest.fixture(scope="module")
def address(summary, tmp_path_factory):
    """The report as a file."""
    return _file(tmp_path_factory.mktemp("report") / "report.html", render_html(summary))


@pytest.fixture
def page(driver, address):
    """The browser with the report freshly opened; no test may cause log messages or network requests."""
    driver.get(address)
    yield driver
    assert driver.get_log("browser") == []
    assert driver.execute_script("return performance.getEntriesByType('resource').length") == 0


def test_slider_and_chart_show_the_numbers_of_the_summary(page, summary):
    main, total = summary["methods"][0], summary["problem"]["n_test"]
    slider, says = page.find_element(By.ID, "flips"), page.find_element(By.ID, "flips-says")
    assert slider.is_displayed()
    assert int(slider.get_attribute("value")) == summary["headline"]["flips"]
    slider.send_keys(Keys.HOME)
    for flips in (0, 1, 2):
        assert page.find_element(By.ID, "flips-name").text == (
            f"{flips} changed label{'' if flips == 1 else 's'} of 100 ({flips}%)"
        )
        assert f"({main['certified'][flips]} of {total})" in says.text
        assert f"; {_percent(main['correct_certified'][flips], total)} are correct" in says.text
        bars = [bar.text for bar in page.find_elements(By.CSS_SELECTOR, "#flips-bars b")]
        by_method = [_percent(method["correct_certified"][flips], total) for method in summary["methods"]]
        by_class = [_percent(row["certified"][flips], row["n"]) for row in summary["by_class"]["rows"]]
        assert bars == by_method + by_class
        slider.send_keys(Keys.ARROW_RIGHT)
    area = page.find_element(By.CSS_SELECTOR, "#chart .area")
    webdriver.ActionChains(page).move_to_element_with_offset(area, area.size["width"] // 2 - 2, 0).perform()
    tip = page.find_element(By.CSS_SELECTOR, ".cursor span")
    assert tip.text == f"{summary['flips'][-1]}: {_percent(main['correct_certified'][-1], total)}"
    webdriver.ActionChains(page).move_to_element(page.find_element(By.TAG_NAME, "h1")).perform()
    assert tip.text.startswith("3: ")


def test_filters_show_the_rows_that_match(page, summary):
    rows = summary["predictions"]["rows"]
    assert _shown(page) == [str(row["id"]) for row in rows[:20]]
    page.find_element(By.CSS_SELECTOR, "[data-more=predictions] button").click()
    assert len(_shown(page)) == 60
    Select(page.find_element(By.ID, "outcome")).select_by_visible_text("wrong")
    wrong = [row for row in rows if not row["correct"]]
    assert _shown(page) == [str(row["id"]) for row in wrong]
    Select(page.find_element(By.ID, "of-class")).select_by_visible_text("1")
    of_one = [row for row in wrong if row["prediction"] == 1]
    assert _shown(page) == [str(row["id"]) for row in of_one]
    assert 0 < len(of_one) < len(wrong)
    middle = of_one[len(of_one) // 2]["radius"]
    page.find_element(By.ID, "at-most").send_keys(str(middle))
    assert _shown(page) == [str(row["id"]) for row in of_one if row["radius"] <= middle]
    status = page.find_element(By.CSS_SELECTOR, "[data-more=predictions] [role=status]")
    page.find_element(By.ID, "search").send_keys("nothing has this")
    assert _shown(page) == []
    assert status.text == "No row matches."


def test_search_finds_a_row_by_its_name(page, summary):
    name = str(summary["predictions"]["rows"][-1]["id"])
    page.find_element(By.ID, "search").send_keys(name)
    assert name in _shown(page)


def test_column_headers_sort_the_table(page, summary):
    radii = np.array([row["radius"] for row in summary["predictions"]["rows"]])
    head = page.find_element(By.CSS_SELECTOR, "#predictions th[data-kind=number]")
    assert head.get_attribute("aria-sort") == "ascending"
    head.find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert head.get_attribute("aria-sort") == "descending"
    shown = [cell.text for cell in page.find_elements(By.CSS_SELECTOR, "#predictions tr:not([hidden]) td.n")]
    assert shown == [str(radius) for radius in np.sort(radii)[::-1][:20]]
    page.find_element(By.CSS_SELECTOR, "#predictions th button").click()
    names = sorted(str(row["id"]) for row in summary["predictions"]["rows"])
    assert _shown(page) == sorted(names, key=int)[:20]
    assert head.get_attribute("aria-sort") is None


def test_clicking_shows_the_labels_of_an_attack(page, summary):
    details = page.find_element(By.CSS_SELECTOR, "#predictions details")
    assert not details.find_element(By.TAG_NAME, "li").is_displayed()
    details.find_element(By.TAG_NAME, "summary").click()
    change = next(row for row in summary["predictions"]["rows"] if row["attack"]["n_labels"] > 1)["attack"]["changes"][
        0
    ]
    assert details.find_element(By.TAG_NAME, "li").text == f"{change['row']}: {change['old']} → {change['new']}"


def test_everything_can_be_reached_by_keyboard(page):
    reached = set()
    for _ in range(60):
        webdriver.ActionChains(page).send_keys(Keys.TAB).perform()
        focused = page.switch_to.active_element
        reached.add(focused.get_attribute("id") or focused.get_attribute("class") or focused.tag_name)
    assert {"skip", "flips", "search", "of-class", "outcome", "at-most", "button", "summary"} <= reached


def test_light_and_dark_modes_are_supported(page):
    colours = {}
    for scheme in ("light", "dark"):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        colours[scheme] = [
            page.execute_script(f"return getComputedStyle(document.body).{name}")
            for name in ("backgroundColor", "color")
        ]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert colours == {
        "light": ["rgb(255, 255, 255)", "rgb(26, 31, 38)"],
        "dark": ["rgb(20, 24, 29)", "rgb(232, 235, 239)"],
    }


def test_phones_need_no_horizontal_scrolling(page, address):
    size = {"width": PHONE_WIDTH, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    page.get(address)
    width = page.execute_script("return document.documentElement.scrollWidth")
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert width == PHONE_WIDTH


def test_the_report_prints_on_a4(page):
    printed = page.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True, "printBackground": True})
    content = base64.b64decode(printed["data"])
    boxes = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", content)
    assert 2 <= len(boxes) <= 8
    for box in boxes:
        np.testing.assert_allclose([float(side) for side in box], A4, atol=1)


def test_the_report_is_readable_without_scripts(driver, address, summary):
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        driver.get(address)
        assert summary["headline"]["text"] in driver.find_element(By.TAG_NAME, "main").text
        assert len(driver.find_elements(By.CSS_SELECTOR, "#predictions tbody tr")) == 60
        assert driver.find_elements(By.CSS_SELECTOR, "#predictions tbody tr")[-1].is_displayed()
        for name in ("slider", "filters"):
            assert not driver.find_element(By.ID, name).is_displayed()
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_hostile_strings_are_never_executed(driver, hostile_summary, tmp_path):
    driver.get(_file(tmp_path / "hostile.html", render_html(hostile_summary)))
    assert driver.title == hostile_summary["title"]
    assert driver.find_elements(By.TAG_NAME, "img") == []
    choice = Select(driver.find_element(By.ID, "of-class"))
    for position, name in enumerate(hostile_summary["problem"]["classes"]):
        choice.select_by_index(position + 1)
        predicted = driver.execute_script(
            "return Array.from(document.querySelectorAll('#predictions tbody tr:not([hidden])'))"
            ".map((row) => row.cells[1].textContent)"
        )
        assert set(predicted) == {name}
    assert driver.get_log("browser") == []


def test_the_content_security_policy_blocks_other_scripts(driver, summary, tmp_path):
    """A second line of defence: even an unescaped string would not run."""
    broken = render_html(summary).replace("</main>", "<script>document.title = 'owned'</script></main>")
    driver.get(_file(tmp_path / "broken.html", broken))
    assert driver.title == summary["title"]
    (entry,) = until(lambda: driver.get_log("browser"))
    assert "Content Security Policy" in entry["message"]


def _shown(driver):
    """Return the names of the rows that are shown."""
    return driver.execute_script(
        "return Array.from(document.querySelectorAll('#predictions tbody tr'))"
        ".filter((row) => row.offsetParent !== null).map((row) => row.cells[0].textContent)"
    )


def _percent(count, total):
    return f"{count * 1000 // total / 10:.1f}%"


def _file(path, text):
    path.write_text(text, encoding="utf-8")
    return path.as_uri()
