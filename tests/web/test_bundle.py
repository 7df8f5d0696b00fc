"""One script out of many modules means what the modules mean; what the bundle does not know it says."""

from collections.abc import Mapping

import pytest

from safelight.web.bundle import CannotBundle, bundles, scripts, style_sheet


def test_modules_run_once_each_after_what_they_import() -> None:
    files = {
        "js/main.js": 'import { a, b as c } from "./lib/two.js";\nimport "./lib/one.js";\nsay(a + c());\n',
        "js/lib/two.js": 'import { one } from "./one.js";\nexport const a = one;\nexport function b() {\n'
        "  return 2;\n}\n",
        "js/lib/one.js": "export const one = 1;\nsay('once');\n",
        "js/elements/x-y.js": 'import { one } from "../lib/one.js";\n// A word.\nexport class XY {}\nsay(one);\n',
        "js/lib/unused.js": "say('never');\n",
    }
    assert scripts(files)["app.js"] == (
        "const $lib_one = (() => {\nconst one = 1;\nsay('once');\nreturn { one };\n})();\n"
        "const $elements_x_y = (() => {\nconst { one } = $lib_one;\nclass XY {}\nsay(one);\n"
        "return { XY };\n})();\n"
        "const $lib_two = (() => {\nconst { one } = $lib_one;\nconst a = one;\nfunction b() {\n"
        "return 2;\n}\nreturn { a, b };\n})();\n"
        "const $main = (() => {\nconst { a, b: c } = $lib_two;\nsay(a + c());\n})();\n"
    )


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"js/main.js": 'import { a } from "./gone.js";\n'}, "js/gone.js, which is not there"),
        ({"js/main.js": 'import "./main.js";\n'}, "import each other"),
        ({"js/main.js": 'import all from "./main.js";\n'}, "no form"),
        ({"js/main.js": "export default 1;\n"}, "no form"),
        ({"js/main.js": "export let a = 1;\n"}, "no form"),
        ({"js/main.js": 'const a = await import("./a.js");\n'}, "no form"),
        ({"js/main.js": 'import { a-b } from "./a.js";\n', "js/a.js": ""}, "imports 'a-b'"),
    ],
)
def test_another_form_is_refused(files: Mapping[str, str], says: str) -> None:
    with pytest.raises(CannotBundle, match=says):
        scripts(files)


def test_a_worker_is_whole_by_itself() -> None:
    files = {
        "js/main.js": 'import { one } from "./lib/one.js";\none();\n',
        "js/lib/one.js": "export const one = 1;\n",
        "js/workers/sum.js": 'import { one } from "../lib/one.js";\npostMessage(one);\n',
    }
    made = bundles(files)
    assert sorted(made) == ["app.css", "app.js", "sum.worker.js"]
    assert made["sum.worker.js"] == (
        "const $lib_one = (() => {\nconst one = 1;\nreturn { one };\n})();\n"
        "const $workers_sum = (() => {\nconst { one } = $lib_one;\npostMessage(one);\n})();\n"
    )
    assert "workers" not in made["app.js"]


def test_layers_have_the_order_of_their_strength() -> None:
    files = {
        "css/utilities.css": ".u {}",
        "css/components/b.css": ".b {}\n\n/* why */\n.c {}",
        "css/components/a.css": ".a {}",
        "css/tokens.css": ":root {}",
    }
    sheet = style_sheet(files)
    assert sheet.startswith("@layer tokens, base, layout, components, utilities;\n")
    places = [sheet.index(rule) for rule in (":root", ".a", ".b", ".c", ".u")]
    assert places == sorted(places)
    assert "why" not in sheet


def test_what_one_page_needs_goes_with_it_alone() -> None:
    files = {
        "js/main.js": 'import { say } from "./lib/say.js";\nsay();\n',
        "js/lib/say.js": "export function say() {}\n",
        "js/lib/rows.js": 'import { say } from "./say.js";\nexport const rows = say;\n',
        "js/elements/every-where.js": "",
        "js/elements/one-page.js": 'import { rows } from "../lib/rows.js";\nrows();\n',
        "js/pages/desk.js": 'import "../elements/one-page.js";\n',
        "css/components/a.css": ".a {}",
        "css/pages/desk.css": ".desk {}",
        "css/pages/desk/more.css": ".more {}",
    }
    made = bundles(files)
    assert sorted(made) == ["app.css", "app.js", "desk.css", "desk.js"]
    assert "every_where" in made["app.js"]
    assert "one_page" not in made["app.js"]
    assert made["app.js"].endswith("export { $lib_say };\n")
    assert made["desk.js"] == (
        'import { $lib_say } from "./app.js";\n'
        "const $lib_rows = (() => {\nconst { say } = $lib_say;\nconst rows = say;\nreturn { rows };\n})();\n"
        "const $elements_one_page = (() => {\nconst { rows } = $lib_rows;\nrows();\n})();\n"
        "const $pages_desk = (() => {\n\n})();\n"
    )
    assert ".desk" not in made["app.css"]
    assert made["desk.css"] == (
        "@layer components {\n.desk {}\n}\n@layer components {\n.more {}\n}\n"
    )
