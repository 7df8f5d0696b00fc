import "../elements/image-page.js";
import "../elements/image-stage.js";
