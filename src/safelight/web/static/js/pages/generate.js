import "../elements/generate-page.js";
