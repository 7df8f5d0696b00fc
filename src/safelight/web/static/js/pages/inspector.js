import "../elements/activity-stream.js";
import "../lib/zoned.js";
