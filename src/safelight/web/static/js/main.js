// Registers the elements; pages read and work without them.
import "./elements/copy-button.js";
import "./elements/local-time.js";
