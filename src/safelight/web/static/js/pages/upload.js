import "../elements/caption-toggle.js";
import "../elements/image-grid.js";
import "../elements/library-search.js";
