// What every page has. The elements beside it register themselves; pages read and work without both.
import "./lib/keys.js";
import "./lib/later.js";
import "./lib/menus.js";
