// What every page has. The elements beside it register themselves; pages read and work without both.
import "./lib/menus.js";
import "./lib/keys.js";
