// What the library does without until it is painted.
import "../elements/month-scrubber.js";
import "../elements/selection-bar.js";
import "../elements/upload-choose.js";
import "../elements/upload-drop.js";
import "../elements/upload-groups.js";
import "../elements/upload-panel.js";
import "../elements/upload-rows.js";
import "../elements/upload-tray.js";
