// Registers the elements; pages read and work without them.
import "./elements/confirm-delete.js";
import "./elements/copy-button.js";
import "./elements/image-grid.js";
import "./elements/live-feed.js";
import "./elements/live-region.js";
import "./elements/local-time.js";
import "./elements/relative-time.js";
import "./elements/upload-drop.js";
import "./elements/upload-row.js";
