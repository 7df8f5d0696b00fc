"""One script out of many modules means what the modules mean; what the bundle does not know it says."""

from collections.abc import Mapping

import pytest

from safelight.web.bundle import CannotBundle, script, style_sheet


def test_modules_run_once_each_after_what_they_import() -> None:
    files = {
        "js/main.js": 'import { a, b as c } from "./lib/two.js";\nimport "./lib/one.js";\nsay(a + c());\n',
        "js/lib/two.js": 'import { one } from "./one.js";\nexport const a = one;\nexport function b() {\n'
        "  return 2;\n}\n",
        "js/lib/one.js": "export const one = 1;\nsay('once');\n",
        "js/elements/x-y.js": 'import { one } from "../lib/one.js";\n// A word.\nexport class XY {}\nsay(one);\n',
        "js/lib/unused.js": "say('never');\n",
    }
    assert script(files) == (
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
        script(files)


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
